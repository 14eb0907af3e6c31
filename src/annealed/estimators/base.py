"""What clustering and classification share: parameters, validation, reading the model.

No mathematics here: rows are checked, handed to the `Annealer`, and its levels are shown under
scikit-learn's names.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from annealed.annealing.annealer import Annealer
from annealed.annealing.schedule import COLDEST, PAPER_COLDEST, PAPER_HOTTEST, Schedule
from annealed.divergences import Array, BregmanDivergence, get_divergence
from annealed.estimators.callback_runner import (
    CallbackRunner,
    CallbackSupportMixin,
    Listener,
    can_follow,
)
from annealed.estimators.codevectors import (
    CodevectorEstimator,
)
from annealed.estimators.parameters import (
    Rule,
    check_parameters,
    instance,
    one_of,
    real,
    step_pair,
    whole,
)
from annealed.path import AnnealingPath, Level
from annealed.stored import Stored
from annealed.views.lineage import leading_voter
from annealed.views.sketch import sketch_bifurcation

SHARED_RULES: dict[str, list[Rule]] = {
    "split": [one_of("variance", "perturb")],
    "K_max": [whole(1)],
    "T_max": [one_of("auto"), real(0)],
    "T_min": [one_of("auto"), real(0)],
    "gamma": [real(0, 1)],
    "samples_per_codevector": [whole(0)],
    "patience": [whole(1)],
    "epsilon_c": [one_of("auto"), real(0)],
    "epsilon_n": [one_of("auto"), real(0, closed=True)],
    "epsilon_r": [real(0, 1, closed=True)],
    "delta": [one_of("auto"), real(0)],
    "alpha": [instance(tuple, "a pair (a, b) of numbers, a >= 1 and b > 0")],
    "alpha_min": [real(0, 1, closed=True)],
    "thresholds": [one_of("scale_free", "paper")],
    "engine": [one_of("online", "block")],
    "callbacks": [one_of(None), Rule(can_follow, "a list of callables or callbacks")],
}
# epsilon_c, epsilon_n, delta where "auto" leaves the choice to us: in multiples of T (delta: of
# its square root), and the paper's, in multiples of Delta_S d.
AUTOMATIC = {"scale_free": (0.01, 0.1, 0.1), "paper": (1e-4, 1e-3, 1e-2)}


def paper_settings() -> dict[str, Any]:
    """Parameters of the paper's experiments, to be passed to either estimator.

    They are those of its "Parameters" paragraph: T_max = 100 Delta_S d, T_min = 0.001 Delta_S d,
    K_max = 100, gamma = 0.8, epsilon_c = 0.0001 Delta_S d, epsilon_n = 0.001 Delta_S d,
    epsilon_r = 1e-7, delta = 0.01 Delta_S d, alpha_n = 1/(1 + 0.9 n), perturbed pairs, a level ends
    at the first small step. Delta_S is the longest edge of the box around the data.

    Returns
    -------
    dict

    Examples
    --------
    >>> from annealed import ODAClassifier, paper_settings
    >>> ODAClassifier(**paper_settings(), random_state=0).thresholds
    'paper'
    """
    return {
        "thresholds": "paper",
        "split": "perturb",
        "gamma": 0.8,
        "K_max": 100,
        "samples_per_codevector": 0,
        "patience": 1,
        "epsilon_r": 1e-7,
        "alpha": (1.0, 0.9),
    }


class AnnealingEstimator(CallbackSupportMixin, CodevectorEstimator):
    """The common part of the estimators that anneal."""

    _rules: ClassVar[dict[str, list[Rule]]] = SHARED_RULES
    # The parameters that were checked last, and what came of them.
    _checked: Annotated[Any, Stored.NEVER]

    engine: str

    @property
    def _takes_arrays(self) -> bool:  # type: ignore[override]
        return getattr(self, "engine", "online") == "block"

    # -- parameters ----------------------------------------------------------------------------

    def _parameters(self) -> tuple[BregmanDivergence, Schedule]:
        """Checked parameters, remembered as long as none is replaced (streams call often)."""
        given = [vars(self)[name] for name in (*self._rules, "divergence", "random_state")]
        known = getattr(self, "_checked", None)
        if known is None or any(a is not b for a, b in zip(given, known[0], strict=True)):
            known = self._checked = given, self._checked_schedule()
        return known[1]

    def _checked_schedule(self) -> tuple[BregmanDivergence, Schedule]:
        params = vars(self)
        check_parameters(type(self).__name__, params, self._rules)
        check_random_state(params["random_state"])
        a, b = step_pair(type(self).__name__, params["alpha"])
        T_max, T_min = self._checked_temperatures()
        chosen = (
            automatic if params[name] == "auto" else float(params[name])
            for name, automatic in zip(
                ("epsilon_c", "epsilon_n", "delta"), AUTOMATIC[params["thresholds"]], strict=True
            )
        )
        epsilon_c, epsilon_n, delta = chosen
        return get_divergence(self.divergence), Schedule(
            split=params["split"],
            T_max=T_max,
            T_min=T_min,
            gamma=float(params["gamma"]),
            K_max=100 if params["K_max"] == "auto" else int(params["K_max"]),
            K_per_class=10 if params["K_max"] == "auto" else 0,
            epsilon_c=epsilon_c,
            epsilon_n=epsilon_n,
            epsilon_r=float(params["epsilon_r"]),
            delta=delta,
            alpha=(a, b),
            alpha_min=float(params["alpha_min"]),
            samples_per_codevector=int(params["samples_per_codevector"]),
            patience=int(params["patience"]),
            paper=params["thresholds"] == "paper",
            engine=params["engine"],
        )

    def _checked_temperatures(self) -> tuple[float | None, float | None]:
        """T_max and T_min, None for "auto"."""
        T_max, T_min = (
            None if vars(self)[name] == "auto" else float(vars(self)[name])
            for name in ("T_max", "T_min")
        )
        if T_max is not None and T_min is not None and T_min >= T_max:
            raise ValueError(
                f"T_min = {T_min:g} must lie below T_max = {T_max:g}: annealing goes from hot to "
                "cold"
            )
        return T_max, T_min

    def _listener(self) -> Listener | None:
        """What hands every level that a stream finishes from now on to the callbacks."""
        return CallbackRunner(self).listen if self.callbacks else None

    def _most_levels(self, schedule: Schedule) -> int | None:
        """No ladder of this schedule has more levels; None if that is not known."""
        if schedule.wanted is not None or (schedule.T_max is None and schedule.T_min is not None):
            return None
        if schedule.thorough and schedule.T_min is None and not schedule.paper:
            return None  # it goes on where clusters are small beside what is between them
        ratio = PAPER_COLDEST / PAPER_HOTTEST if schedule.paper else COLDEST
        if schedule.T_max is not None and schedule.T_min is not None:
            ratio = schedule.T_min / schedule.T_max
        elif schedule.paper and schedule.T_max is not None:
            return None
        return math.floor(math.log(ratio) / math.log(schedule.gamma) + 1e-9) + 1

    def _warn_of_caps(self, annealer: Annealer, before: int) -> None:
        """Say once if levels were ended by their cap; called by the method that learns."""
        if before or not annealer.unconverged:
            return
        T, samples = annealer.unconverged[0]
        warnings.warn(
            f"a level at T = {T:.3g} had not converged after {samples} samples and was ended "
            "there; others like it are not reported. A larger epsilon_c ends levels sooner.",
            ConvergenceWarning,
            stacklevel=4,
        )

    # -- the model -----------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learner")

    @property
    def _fitted_divergence(self) -> BregmanDivergence:
        divergence: BregmanDivergence = self._learner.divergence
        return divergence

    @property
    def _model(self) -> Level:
        """The level that answers."""
        raise NotImplementedError

    @property
    def path_(self) -> AnnealingPath:
        """Every finished level, hottest first."""
        check_is_fitted(self)
        path: AnnealingPath = self._learner.annealer.path()
        return path

    @property
    def temperature_(self) -> float:
        """T of the current model (0 after a hard polish)."""
        return self._model.temperature

    @property
    def codevectors_(self) -> Array:
        """mu_i of the current model, shape (K, n_features)."""
        return self._model.codevectors

    @property
    def weights_(self) -> Array:
        """rho_i of the current model, shape (K,), summing to one within each class."""
        return self._model.weights

    @property
    def nodes_(self) -> NDArray[np.int64]:
        """Place of every codevector in the tree of splits, as in `annealed.path.Level.nodes`."""
        return self._model.nodes

    def at(self, *, temperature: float | None = None, n_codevectors: int | None = None) -> Self:
        """The fitted model at another level of its path, as annealed, without refitting.

        Parameters
        ----------
        temperature : float
            The coldest level that is not below it.
        n_codevectors : int
            Exactly this many codevectors: any number from the first level's to the last's.

        Returns
        -------
        estimator
            A copy that predicts with that level. It shares the path and cannot learn further.
        """
        check_is_fitted(self)
        path = (
            self._learner.annealer.path()
        )  # in its own numbering of the classes, as every model is
        if not len(path):
            raise ValueError("no level is finished yet: the model is still warming up")
        if temperature is not None and n_codevectors is None:
            level = path.at_temperature(temperature)
        elif n_codevectors is not None and temperature is None:
            level = path.codebook(int(n_codevectors))
        else:
            raise ValueError("give either temperature or n_codevectors")
        return self._fixed_at(level)

    def _fixed_at(self, level: Level) -> Self:
        """A copy that answers with a level and cannot learn further."""
        twin = copy.copy(self)
        for name in ("labels_", "_fast_path"):
            twin.__dict__.pop(name, None)
        twin._learner = self._learner.fixed_at(level)
        return twin

    # -- in a notebook -------------------------------------------------------------------------

    def _sketch(self) -> str:
        """A small bifurcation diagram, once there is a path."""
        if not self.__sklearn_is_fitted__():
            return ""
        picture = sketch_bifurcation(
            self.path_,
            class_names=getattr(self, "classes_", None),
            current=(self.temperature_, len(self.codevectors_[leading_voter(self)])),
            nodes=self.nodes_[leading_voter(self)].tolist(),
        )
        return f"<div>{picture}</div>" if picture else ""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """scikit-learn's diagram and the sketch (not there where it is set to show none)."""
        diagram = super()._repr_html_
        return lambda: diagram() + self._sketch()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._sketch()
        return bundle

    # -- reading -------------------------------------------------------------------------------

    def _log_density(self, log_total: Array, T: float) -> Array:
        """log sum w exp(-d/T), less the log of its integral where that is known in closed form."""
        if not T > 0:
            raise ValueError("a model of identical samples (temperature 0) has no density")
        divergence, d = self._fitted_divergence, self.n_features_in_
        if divergence.kernel != "squared_euclidean":
            return log_total
        volume = 0.5 * d * np.log(np.pi * T)
        if divergence.matrix is not None:
            volume -= np.log(np.diag(divergence.matrix)).sum()
        return np.asarray(log_total - volume)
