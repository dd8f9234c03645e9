"""Spans and metrics of OpenTelemetry about planning, reading, commits and maintenance. They are off until `enable`."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from deltaberg.errors import MissingDependencyError

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

__all__ = ["Span", "disable", "enable", "span"]


class Span:
    """Something that is done, from its begin to its end. This one is told to nobody."""

    def __enter__(self) -> Span:  # noqa: PYI034 - typing.Self is younger than Python 3.10
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def set(self, **facts: str | bool | float | None) -> None:
        """Say what was done. Facts that are None are left out."""

    def event(self, name: str, **facts: str | bool | float) -> None:
        """Say what happened meanwhile."""


class _Providers:
    """What makes spans and metrics."""

    def __init__(self, tracer: Tracer, meter: Meter) -> None:
        self.tracer = tracer
        self._meter = meter
        self._made: dict[str, Any] = {}

    def measure(self, name: str, seconds: float, numbers: dict[str, float]) -> None:
        """Add what was done to the sums over all spans of a name."""
        if name not in self._made:
            self._made[name] = self._meter.create_histogram(f"{name}.duration", unit="s")
        self._made[name].record(seconds)
        for fact, number in numbers.items():
            sum_name = f"{name}.{fact}"
            if sum_name not in self._made:
                self._made[sum_name] = self._meter.create_counter(sum_name)
            self._made[sum_name].add(number)


class _ToldSpan(Span):
    """Something that is done, of which OpenTelemetry is told.

    Parameters
    ----------
    is_current
        Whether spans that begin meanwhile in the same thread are parts of it.
    """

    def __init__(self, providers: _Providers, name: str, *, is_current: bool) -> None:
        self._providers = providers
        self._name = name
        self._is_current = is_current
        self._numbers: dict[str, float] = {}
        self._span = providers.tracer.start_span(name)
        self._begun = time.perf_counter()
        self._while_current = ExitStack()

    def __enter__(self) -> Span:
        if self._is_current:
            from opentelemetry.trace import use_span

            # Its end and its errors are told below.
            told = use_span(self._span, record_exception=False, set_status_on_exception=False)
            self._while_current.enter_context(told)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._while_current.close()
        # A reader that wants no more rows is no error.
        if error is not None and not isinstance(error, GeneratorExit):
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(StatusCode.ERROR, type(error).__qualname__)
        self._span.end()
        self._providers.measure(self._name, time.perf_counter() - self._begun, self._numbers)

    def set(self, **facts: str | bool | float | None) -> None:
        known = {name: value for name, value in facts.items() if value is not None}
        self._span.set_attributes({f"deltaberg.{name}": value for name, value in known.items()})
        self._numbers |= {name: one for name, one in known.items() if not isinstance(one, (bool, str))}

    def event(self, name: str, **facts: str | bool | float) -> None:
        self._span.add_event(name, {f"deltaberg.{fact}": value for fact, value in facts.items()})


_SILENT = Span()
_providers: _Providers | None = None


def enable(*, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None) -> None:
    """Have OpenTelemetry told what is planned, read, committed and maintained from now on, in this process.

    Parameters
    ----------
    tracer_provider, meter_provider
        What makes spans and metrics; None for those that the process has set for all libraries.

    Raises
    ------
    MissingDependencyError
        The package opentelemetry-api is not installed.

    Examples
    --------
    >>> from deltaberg import telemetry
    >>> telemetry.enable()
    >>> telemetry.disable()
    """
    global _providers  # noqa: PLW0603 - the process has one
    try:
        from opentelemetry import metrics, trace
    except ImportError as error:
        raise MissingDependencyError(
            "the package opentelemetry-api, which takes spans and metrics, is not installed",
            hint="run pip install 'deltaberg[otel]'",
        ) from error
    tracer = trace.get_tracer("deltaberg", tracer_provider=tracer_provider)
    _providers = _Providers(tracer, metrics.get_meter("deltaberg", meter_provider=meter_provider))


def disable() -> None:
    """Tell OpenTelemetry nothing more."""
    global _providers  # noqa: PLW0603 - the process has one
    _providers = None


def span(name: str, *, is_current: bool = True, **facts: str | bool | float | None) -> Span:
    """Return something that is done within a ``with`` block, and what is known of it when it begins.

    Parameters
    ----------
    name
        What is done.
    is_current
        Whether spans that begin meanwhile are parts of it. A generator is left and entered again, perhaps in other
        threads: it must not be.
    """
    providers = _providers
    if providers is None:
        return _SILENT
    made = _ToldSpan(providers, f"deltaberg.{name}", is_current=is_current)
    made.set(**facts)
    return made
