"""The rules as policies: one for each rule, one that lists what could not be judged, one that takes what a team states.

Only reading and reporting; what is wrong with a stack is said by policies/rules. A rule's policy is mandatory: its errors stop
a preview, and its warnings are advisory under the same name, since the level is said with each violation (server.py).
Not for: serving (server.py). Nothing here starts anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    ReportViolation,
    StackValidationArgs,
    StackValidationPolicy,
)

from policies import stated
from policies.facts.wire import Resource, resource, shown
from policies.finding import Finding, Rule
from policies.judgement import NOT_JUDGED, judge
from policies.rules import RULES

NAME = "llm-serving"
DESCRIPTION = "Large language models on Kubernetes: what cannot work is refused in the preview"
ENVIRONMENT = "environment"
WARNINGS = "warnings"
_LEVELS = {"type": "string", "enum": ["advisory", "mandatory", "disabled"], "default": "advisory"}


class RulePolicy(StackValidationPolicy):
    """The policy of one rule. By itself, without the server, it reports the rule's errors."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(
            name=rule.id,
            description=rule.title,
            validate=self._validate,
            enforcement_level=EnforcementLevel.MANDATORY,
            config_schema=PolicyConfigSchema(
                {
                    WARNINGS: {
                        **_LEVELS,
                        "description": "Level of what the rule finds likely wrong, but not certain to fail",
                    }
                }
            ),
            remediation_steps=rule.why,
        )
        self.rule = rule

    def _validate(self, args: StackValidationArgs, report: ReportViolation) -> None:
        resources = read(args)
        for placed in judge(resources, rules=(self.rule,)).findings:
            if placed.finding.severity == "error":
                report(text(placed.finding, resources), placed.urn or None)


def policies(rules: Sequence[Rule] = RULES) -> list[Policy]:
    """All policies: facts stated, the rules in their order, what could not be judged."""
    return [environment(), *map(RulePolicy, rules), not_judged()]


def environment() -> StackValidationPolicy:
    """Takes what the resources do not say. It finds fault with nothing but its own configuration."""

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        try:
            stated.parse(args.get_config())
        except stated.StatedError as error:
            for problem in error.problems:
                report(f"policy '{ENVIRONMENT}': {problem}", None)

    return StackValidationPolicy(
        name=ENVIRONMENT,
        description="What the policies know of the environment beyond this stack",
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        config_schema=PolicyConfigSchema(stated.schema()),
    )


def not_judged() -> StackValidationPolicy:
    """Lists what a preview cannot know of judged resources, and the rules that wait for it."""

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        resources = read(args)
        for placed in judge(resources).open:
            report(text(placed.finding, resources), placed.urn or None)

    return StackValidationPolicy(
        name=NOT_JUDGED,
        description="Values that only the update knows",
        validate=validate,
        enforcement_level=EnforcementLevel.ADVISORY,
    )


def read(args: StackValidationArgs) -> list[Resource]:
    """The resources of a policy's arguments as readers take them."""
    return [
        resource(
            each.resource_type,
            each.name,
            each.props,
            urn=each.urn,
            sources={key: [source.urn for source in sources] for key, sources in each.property_dependencies.items()},
            ignore_changes=each.opts.ignore_changes,
            parent=each.parent.urn if each.parent else "",
        )
        for each in args.resources
    ]


def text(finding: Finding, resources: Sequence[Resource]) -> str:
    """The finding as a violation's message, without any text that a resource keeps secret."""
    secrets = frozenset().union(*(each.secrets for each in resources))
    return shown(f"{finding.place}: {finding.message}; {finding.mend}", secrets)
