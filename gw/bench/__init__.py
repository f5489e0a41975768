"""The load test of `gw bench`: simulated callers who talk to a gateway, or to vendors directly, as a voice app does.

    target        how a caller reaches each stage (listen, think, speak): through a gateway in any protocol, or a vendor itself
    speech        what the callers say: recordings, or questions that the model under test has spoken before
    microphone    a caller's audio, a frame every 20 ms
    faults        the script of what goes wrong
    caller        one caller: says something, hears the answer, perhaps interrupts it
    load_test     all callers, and the records that the gateway has of them
    figures       what was measured, and its summary
    page          the report as an HTML page
"""
