"""Who follows a fit: callables that are handed levels, and callbacks of scikit-learn's shape.

Since its release 1.9 scikit-learn has an interface for callbacks, `sklearn.callback`, which it
calls experimental. Our estimators take part in it where it is there (``set_callbacks``). What is
given as ``callbacks=`` follows by the same hooks under every release, and in streams too.
"""

from __future__ import annotations

import copy
import inspect
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from annealed.path import Level

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in for scikit-learn's where that is not there yet."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Stands in for scikit-learn's where that is not there yet."""
        return method


HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")
Listener = Callable[[Any], None]


@dataclass
class Task:
    """A part of a fit: the whole of it ("fit") or one level of it ("level").

    It has the attributes of scikit-learn's ``CallbackContext``.
    """

    task_name: str
    estimator_name: str
    task_id: int = 0
    max_subtasks: int | None = 0
    sequential_subtasks: bool = True
    parent: Task | None = None
    root_uuid: uuid.UUID = field(default_factory=uuid.uuid4)
    init_time: datetime = field(default_factory=lambda: datetime.now(UTC))
    source_estimator_name: str | None = None
    source_task_name: str | None = None


def has_hooks(callback: Any) -> bool:
    """Whether it follows a fit by hooks rather than by being called."""
    return all(callable(getattr(callback, hook, None)) for hook in HOOKS)


def can_follow(callbacks: Any) -> bool:
    """Whether these are callables and callbacks, none of them a class that was meant to be one."""
    return isinstance(callbacks, (list, tuple)) and all(
        not isinstance(one, type) and (callable(one) or has_hooks(one)) for one in callbacks
    )


def snapshot(estimator: Any, level: Level) -> Any:
    """The estimator as if fit had stopped after a level: it predicts, and cannot learn further."""
    twin = copy.copy(estimator)
    twin._learner = estimator._learner.fixed_at(level)
    twin.__dict__.pop("labels_", None)
    return twin


class CallbackRunner:
    """The callbacks of an estimator during one call of a method that learns."""

    def __init__(self, estimator: Any, X: Any = None, y: Any = None, weights: Any = None) -> None:
        self.estimator = estimator
        self.callables = [one for one in estimator.callbacks or () if not has_hooks(one)]
        self.callbacks = [one for one in estimator.callbacks or () if has_hooks(one)]
        metadata = None if weights is None else {"sample_weight": weights}
        self.given = {"X": X, "y": y, "metadata": metadata}
        self.root = Task("fit", type(estimator).__name__, max_subtasks=None)
        self.context: Any = None  # scikit-learn's, of the whole fit
        self.levels = 0

    @property
    def listening(self) -> bool:
        """Whether anyone is: a path after every level takes time."""
        # Not a public name, but the only one that clones keep.
        others = getattr(self.estimator, "_skl_callbacks", None)
        return bool(self.callables or self.callbacks or others)

    def enter(self, max_levels: int | None) -> None:
        """The fit begins for scikit-learn's callbacks."""
        if hasattr(self.estimator, "_init_callback_context"):
            self.context = self.estimator._init_callback_context(max_subtasks=max_levels)
            self.context.call_on_fit_task_begin(estimator=self.estimator, **self.given)

    def leave(self) -> None:
        """The fit has ended for scikit-learn's callbacks."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator,
                **self.given,
                reconstruction_attributes=lambda: dict(vars(self.estimator)),
            )

    def listen(self, annealer: Any) -> None:
        """Hand over every level that has finished since the last time."""
        for level in annealer.path():
            if level.temperature < annealer.told:
                self.tell(level)
                annealer.told = level.temperature

    def tell(self, level: Level) -> None:
        """One level has finished."""
        for callback in self.callables:
            callback(level)

        def fitted() -> Any:
            return snapshot(self.estimator, level)

        name = self.root.estimator_name
        task = Task("level", name, self.levels, parent=self.root, root_uuid=self.root.root_uuid)
        self.levels += 1
        self.call("on_fit_task_begin", task)
        self.call("on_fit_task_end", task, fitted)
        if self.context is not None:
            context = self.context.subcontext(task_name="level")
            told = {"estimator": self.estimator, **self.given}
            context.call_on_fit_task_begin(**told)
            context.call_on_fit_task_end(
                **told, reconstruction_attributes=lambda: dict(vars(fitted()))
            )

    def call(self, hook: str, task: Task, fitted: Callable[[], Any] | None = None) -> None:
        """Call a hook of every callback with those of the arguments it names."""
        estimator = None
        for callback in self.callbacks:
            method = getattr(callback, hook)
            wanted = [
                name
                for name, one in inspect.signature(method).parameters.items()
                if one.kind == one.KEYWORD_ONLY
            ]
            if "fitted_estimator" in wanted and estimator is None and fitted is not None:
                estimator = fitted()
            known = {**self.given, "fitted_estimator": estimator}
            method(self.estimator, task, **{name: known.get(name) for name in wanted})


@contextmanager
def run_callbacks(
    estimator: Any, X: Any, y: Any = None, weights: Any = None, *, max_levels: int | None = None
) -> Iterator[Listener | None]:
    """Let the callbacks follow a fit: gives what is to be called with the annealer after a level.

    Callbacks that were set up are torn down, whatever happens in between.
    """
    runner = CallbackRunner(estimator, X, y, weights)
    runner.root.max_subtasks = max_levels
    started: list[Any] = []
    try:
        runner.enter(max_levels)
        for callback in runner.callbacks:
            started.append(callback)
            callback.setup(estimator, runner.root)
        runner.call("on_fit_task_begin", runner.root)
        yield runner.listen if runner.listening else None
        runner.call("on_fit_task_end", runner.root, lambda: copy.copy(estimator))
        runner.leave()
    finally:
        tear_down(started, estimator, runner.root)


def tear_down(started: list[Any], estimator: Any, task: Task) -> None:
    """Tear all of them down, also when one fails; the first error is raised in the end."""
    errors = []
    try:
        with_callbacks(lambda _: None)(estimator)  # its own, when this nothing has been done
    except Exception as error:
        errors.append(error)
    for callback in started:
        try:
            callback.teardown(estimator, task)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


__all__ = [
    "CallbackRunner",
    "CallbackSupportMixin",
    "Listener",
    "Task",
    "can_follow",
    "has_hooks",
    "run_callbacks",
]  # fmt: skip
