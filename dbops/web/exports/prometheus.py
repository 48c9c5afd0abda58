"""Write metrics in the text format that Prometheus reads."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from dbops.queries.monitoring import Metric


class _Metrics(Collector):
    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.metrics = list(metrics)

    def collect(self) -> Iterator[Family]:
        for metric in self.metrics:
            names = sorted({name for labels, _ in metric.samples for name in labels})
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.help, labels=names)
            for labels, value in metric.samples:
                family.add_metric([labels[name] for name in names], value)
            yield family


def render(metrics: Iterable[Metric]) -> bytes:
    """Return the metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(metrics))
    return generate_latest(registry)
