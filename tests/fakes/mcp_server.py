"""The server that the official MCP conformance suite expects: each of its tools, resources and prompts, by its names.

What each must answer is said by the suite itself (`conformance list --server` and the failures of a run, 0.1.16).
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as types
import trio
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from gw.types.audio import PCM_16K
from gw.wire import wav

Context = ServerRequestContext[Any]
Result = types.CallToolResult
Tool = Callable[[Context, Mapping[str, Any]], Awaitable[Result]]
PAUSE_S = 0.05
"""Between two notifications of one call, so that they cannot leave as one."""


def _png() -> bytes:
    """One red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


PNG = base64.b64encode(_png()).decode()
WAV = base64.b64encode(wav.header(PCM_16K, 320) + bytes(320)).decode()


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _image() -> types.ImageContent:
    return types.ImageContent(type="image", data=PNG, mime_type="image/png")


def _embedded(uri: str, text: str, mime_type: str = "text/plain") -> types.EmbeddedResource:
    content = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=content)


async def _with_logging(context: Context, _arguments: Mapping[str, Any]) -> Result:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        params = types.LoggingMessageNotificationParams(level="info", data=text)
        await context.session.send_notification(types.LoggingMessageNotification(params=params), context.request_id)
        await trio.sleep(PAUSE_S)
    return Result(content=[_text("logged three times")])


async def _with_progress(context: Context, _arguments: Mapping[str, Any]) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100)
        await trio.sleep(PAUSE_S)
    return Result(content=[_text("done")])


async def _sampling(context: Context, arguments: Mapping[str, Any]) -> Result:
    prompt = types.SamplingMessage(role="user", content=_text(arguments["prompt"]))
    answer = await context.session.send_request(
        types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[prompt], max_tokens=100)),
        types.CreateMessageResult,
        metadata=ServerMessageMetadata(related_request_id=context.request_id),
    )
    said = answer.content.text if isinstance(answer.content, types.TextContent) else ""
    return Result(content=[_text(f"LLM response: {said}")])


def _asks(description: str, properties: Mapping[str, Any], required: list[str]) -> Tool:
    """A tool that asks its user to fill in a form."""

    async def ask(context: Context, arguments: Mapping[str, Any]) -> Result:
        schema = {"type": "object", "properties": properties, "required": required}
        answer = await context.session.elicit_form(arguments.get("message", "Please fill in"), schema, context.request_id)
        return Result(content=[_text(f"{description}: action={answer.action}, content={answer.content}")])

    return ask


async def _reconnection(context: Context, _arguments: Mapping[str, Any]) -> Result:
    """Ends the stream in the middle of the call, where the transport keeps what comes after."""
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await trio.sleep(PAUSE_S)
    return Result(content=[_text("Reconnection test completed")])


def _says(*content: types.ContentBlock, is_error: bool = False) -> Tool:
    async def say(_context: Context, _arguments: Mapping[str, Any]) -> Result:
        return Result(content=list(content), is_error=is_error)

    return say


_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_USER = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}
_DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_TITLED = [{"const": f"value{n}", "title": f"Choice {n}"} for n in (1, 2, 3)]
_PLAIN = [f"option{n}" for n in (1, 2, 3)]
_ENUMS = {
    "untitledSingle": {"type": "string", "enum": _PLAIN},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _PLAIN}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}
_SCHEMA_2020 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
    },
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def _of(name: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


TOOLS: Mapping[str, tuple[Tool, dict[str, Any]]] = {
    "test_simple_text": (_says(_text("This is a simple text response for testing.")), _NOTHING),
    "test_image_content": (_says(_image()), _NOTHING),
    "test_audio_content": (_says(types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")), _NOTHING),
    "test_embedded_resource": (
        _says(_embedded("test://embedded-resource", "This is an embedded resource content.")), _NOTHING
    ),
    "test_multiple_content_types": (
        _says(
            _text("Multiple content types test:"),
            _image(),
            _embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
        ),
        _NOTHING,
    ),
    "test_tool_with_logging": (_with_logging, _NOTHING),
    "test_error_handling": (
        _says(_text("This tool intentionally returns an error for testing"), is_error=True), _NOTHING
    ),
    "test_tool_with_progress": (_with_progress, _NOTHING),
    "test_sampling": (_sampling, _of("prompt")),
    "test_elicitation": (_asks("User response", _USER, ["username", "email"]), _of("message")),
    "test_elicitation_sep1034_defaults": (_asks("Elicitation completed", _DEFAULTS, []), _NOTHING),
    "test_elicitation_sep1330_enums": (_asks("Elicitation completed", _ENUMS, []), _NOTHING),
    "json_schema_2020_12_tool": (_says(_text("ok")), _SCHEMA_2020),
    "test_reconnection": (_reconnection, _NOTHING),
}  # fmt: skip
_STATIC = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PNG),
    "test://watched-resource": ("text/plain", "Watched."),
}
_PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


async def _list_tools(_context: Context, _params: Any) -> types.ListToolsResult:
    listed = [types.Tool(name=name, description=f"{name}.", input_schema=schema) for name, (_, schema) in TOOLS.items()]
    return types.ListToolsResult(tools=listed)


async def _call_tool(context: Context, params: types.CallToolRequestParams) -> Result:
    call, _ = TOOLS[params.name]
    return await call(context, params.arguments or {})


async def _list_resources(_context: Context, _params: Any) -> types.ListResourcesResult:
    listed = [
        types.Resource(uri=uri, name=uri.partition("//")[2], description=f"The resource {uri}.", mime_type=mime_type)
        for uri, (mime_type, _) in _STATIC.items()
    ]
    return types.ListResourcesResult(resources=listed)


async def _list_templates(_context: Context, _params: Any) -> types.ListResourceTemplatesResult:
    uri = "test://template/{id}/data"
    template = types.ResourceTemplate(uri_template=uri, name="template", mime_type="application/json")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def _read_resource(_context: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    contents: types.TextResourceContents | types.BlobResourceContents
    if uri in _STATIC:
        mime_type, held = _STATIC[uri]
        if mime_type == "image/png":
            contents = types.BlobResourceContents(uri=uri, mime_type=mime_type, blob=held)
        else:
            contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=held)
    elif uri.startswith("test://template/") and uri.endswith("/data"):
        number = uri.split("/")[3]
        text = f'{{"id":"{number}","templateTest":true,"data":"Data for ID: {number}"}}'
        contents = types.TextResourceContents(uri=uri, mime_type="application/json", text=text)
    else:
        raise MCPError(code=types.INVALID_PARAMS, message=f"there is no resource {uri}")
    return types.ReadResourceResult(contents=[contents])


async def _list_prompts(_context: Context, _params: Any) -> types.ListPromptsResult:
    listed = [
        types.Prompt(
            name=name,
            description=f"{name}.",
            arguments=[types.PromptArgument(name=argument, required=True) for argument in arguments],
        )
        for name, arguments in _PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=listed)


async def _get_prompt(_context: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    given = params.arguments or {}
    said: list[types.ContentBlock]
    match params.name:
        case "test_prompt_with_arguments":
            said = [_text(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'")]
        case "test_prompt_with_embedded_resource":
            embedded = _embedded(given["resourceUri"], "Embedded resource content for testing.")
            said = [embedded, _text("Please process the embedded resource above.")]
        case "test_prompt_with_image":
            said = [_image(), _text("Please analyze the image above.")]
        case _:
            said = [_text("This is a simple prompt for testing.")]
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=content) for content in said])


async def _complete(_context: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    begun = params.argument.value
    values = [f"{begun}{end}" for end in ("a", "b")]
    return types.CompleteResult(completion=types.Completion(values=values, total=2, has_more=False))


async def _nothing_more(_context: Context, _params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def conforming() -> Server[Any]:
    """The suite's server, to be mounted."""
    server: Server[Any] = Server(
        "conformance",
        version="1",
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
        on_list_resources=_list_resources,
        on_list_resource_templates=_list_templates,
        on_read_resource=_read_resource,
        on_subscribe_resource=_nothing_more,
        on_unsubscribe_resource=_nothing_more,
        on_list_prompts=_list_prompts,
        on_get_prompt=_get_prompt,
        on_completion=_complete,
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, _nothing_more)
    return server
