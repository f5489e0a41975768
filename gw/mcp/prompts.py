"""Prompts: questions of a voice team about its gateway, with the tools that answer them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Prompt:
    """`arguments`: name → (description, default). `template` holds each name in braces."""

    name: str
    title: str
    description: str
    arguments: Mapping[str, tuple[str, str]]
    template: str

    def text(self, arguments: Mapping[str, str]) -> str:
        """Fill the template. A caller's value is inserted as it is and never treated as a template."""
        text = self.template
        for name, (_, default) in self.arguments.items():
            text = text.replace(f"{{{name}}}", (arguments.get(name) or default)[:200])
        return text


_ALL = (
    Prompt(
        name="cost_review", title="Review what was spent",
        description="What the money was spent on, what stands out, and what could be cheaper.",
        arguments={"period": ("today, week, month or all", "week")},
        template="Call get_costs with period {period}, then get_latency_stats for the most expensive models. Say where "
        "the money went by project, provider and model, what stands out, and which cheaper model or chain could be tried. "
        "Name requests without a known price.",
    ),
    Prompt(
        name="why_is_it_slow", title="Find out why answers are slow",
        description="From percentiles to the slowest requests, stage by stage.",
        arguments={"model": ("A model id; empty = all of them", "")},
        template="Call get_latency_stats for today{model}, then get_logs for requests above the 95th percentile and "
        "get_request or get_turn for some of them. Say which stage takes the time: the gateway itself, a fallback, the "
        "vendor's first byte, or its stream; and what to change.",
    ),
    Prompt(
        name="add_provider", title="Add a provider",
        description="Step by step: the provider, its models, a test, a chain.",
        arguments={"provider_type": ("Such as deepgram", "")},
        template="Help me add a provider {provider_type}. Ask for an id and for the place of its key; never "
        "repeat the key. Then call add_provider, test_provider, register_model for each model, and propose "
        "set_fallback_chain. Show each step's result.",
    ),
    Prompt(
        name="monthly_reconcile", title="Compare a month with the vendors' bills",
        description="Our records against a vendor's usage export.",
        arguments={"provider": ("openai, deepgram or cartesia", "openai"), "month": ("As 2026-01", "")},
        template="I will give you the usage export of {provider} for {month}. Bring it into the canonical form, call "
        "run_reconcile with the month as window, and explain each flagged row by its cause.",
    ),
    Prompt(
        name="incident_report", title="Write an incident report",
        description="What failed, who was affected, what took over.",
        arguments={"period": ("today or week", "today")},
        template="Call get_overview, get_provider_status, get_logs with status error and with status fallback "
        "({period}), and get_audit_log. Write a short report: what failed and when, which projects were affected, "
        "which candidates took over, what changed before it, and what to do.",
    ),
)  # fmt: skip
PROMPTS: Mapping[str, Prompt] = {prompt.name: prompt for prompt in _ALL}
