"""What the emulator's CloudFormation lacks for the template to be deployed as it is.

It hands no parameter values to the SAM transform: `AutoPublishCodeSha256: !Ref CodeDigest` would see the
default for ever, and no second version of a function would be published. It refuses alarms on several
metrics; none of its alarms ever fires, so the first metric stands for them. And a number that a parameter
gives comes as text, which the poller of all queues trips over where it is a maximum of concurrency.
"""

from contextvars import ContextVar
from typing import Any

import samtranslator.translator.transform as sam
from ministack.services.cloudformation import changesets, engine, handlers, provisioners

_values: ContextVar[dict[str, Any]] = ContextVar("values")


def install() -> None:
    _hand_over_parameters()
    _accept_alarms_on_several_metrics()
    _read_concurrency_as_a_number()


def _hand_over_parameters() -> None:
    apply, transform = engine._apply_transforms, sam.transform

    def apply_transforms(template: dict[str, Any], provided: Any = None, previous: Any = None) -> Any:
        token = _values.set(engine._transform_parameters(template, provided, previous))
        try:
            return apply(template, provided, previous)
        finally:
            _values.reset(token)

    def transform_with_values(template: dict[str, Any], _: dict[str, Any], *args: Any, **options: Any) -> Any:
        return transform(template, dict(_values.get()), *args, **options)

    for module in (changesets, engine, handlers):
        module._apply_transforms = apply_transforms
    sam.transform = transform_with_values


def _accept_alarms_on_several_metrics() -> None:
    record = provisioners._cw_metric_alarm_record

    def first_metric(name: str, properties: dict[str, Any]) -> Any:
        metrics = properties.get("Metrics")
        if metrics:
            stat = next(m["MetricStat"] for m in metrics if "MetricStat" in m)
            kept = {key: value for key, value in properties.items() if key != "Metrics"}
            properties = {**kept, **stat["Metric"], "Statistic": stat["Stat"], "Period": stat["Period"]}
        return record(name, properties)

    provisioners._cw_metric_alarm_record = first_metric


def _read_concurrency_as_a_number() -> None:
    mappings = provisioners._RESOURCE_HANDLERS["AWS::Lambda::EventSourceMapping"]
    create = mappings["create"]

    def create_mapping(logical_id: str, properties: dict[str, Any], *args: Any) -> Any:
        scaling = properties.get("ScalingConfig")
        if scaling:
            scaling = {name: int(value) for name, value in scaling.items()}
            properties = {**properties, "ScalingConfig": scaling}
        return create(logical_id, properties, *args)

    mappings["create"] = create_mapping
