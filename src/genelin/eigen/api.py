"""`top_k` and `top_k_cca`: check the input, choose a method, warn if it did not converge."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

import numpy as np

from genelin.eigen.costs.machine import DEFAULT_PROFILE, Machine, Profile, default_machine, measured
from genelin.eigen.costs.plan import Plan
from genelin.eigen.fingerprint import fingerprint, refuse_wrong_answer
from genelin.eigen.methods.davidson import STEPS
from genelin.eigen.planning.cluster import ClusterSpec, DataSpec, described
from genelin.eigen.planning.cluster_costs import planned_on
from genelin.eigen.planning.planner import best_route, measured_plan, planned, trial_steps
from genelin.eigen.rescaling import in_units
from genelin.eigen.run.checkpoint_files import FileCheckpointer
from genelin.eigen.run.method import Method, Request, as_method
from genelin.errors import ConvergenceWarning, RankDeficiencyWarning
from genelin.io.checkpoint import Checkpoint
from genelin.linalg import Which
from genelin.problems import Pencil, TwoView, check_pencil
from genelin.results import Callback, CCASolution, EigenSolution
from genelin.system.internal_errors import our_work
from genelin.validation import check_flag, check_index, check_number, generator

__all__ = ["plan_cca", "plan_top_k", "top_k", "top_k_cca"]

Rng = np.random.Generator | int | None
Solution = TypeVar("Solution", EigenSolution, CCASolution)


def top_k(
    A: Any,
    B: Any = None,
    k: int = 1,
    *,
    method: Any = None,
    tol: float = 1e-8,
    which: Which = "LM",
    rng: Rng = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    resume: bool = False,
) -> EigenSolution:
    """Top-k generalized eigenpairs, A v = λ B v.

    Parameters
    ----------
    A : (d, d) symmetric: ndarray, scipy.sparse, scipy `LinearOperator`, PyLops operator, or
        anything with `shape` and `@`.
    B : (d, d) symmetric positive definite, of the same kinds; None is the identity.
    k : number of pairs, 1 ≤ k ≤ d.
    method : None lets genelin choose; or `GenELin`, `GenELinK`, `Dense` with their settings.
    tol : stop when ‖A w − θ B w‖ in the B⁻¹-norm is at most tol·|θ₁| for every pair.
    which : "LM" (largest magnitude), "LA" (largest) or "SA" (smallest algebraic value).
    rng : seed or generator of the random start; the same seed gives the same answer.
    callback : called as callback(record, W) after every outer iteration, of which `Dense` has none;
        a true answer stops.
    checkpoint : a folder, or a `genelin.io.Checkpoint`: the state of the run is kept there, after
        outer iterations and their callbacks, at the end, and when an exception or Ctrl-C ends it.
    resume : continue the run whose state is there, with its trace and cost; a finished one gives
        its answer at once. Data and settings must be the same (limits such as max_iter, the seed
        and the callback may differ).

    Returns
    -------
    EigenSolution
        values, vectors, residuals, sin_theta_bound, status, converged, cost, trace.

    Warns
    -----
    ConvergenceWarning
        If the tolerance was not reached; `status` says why and what to do.
    CheckpointWarning
        If a state could not be written (the run goes on), or there was none to resume.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import top_k
    >>> A = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> B = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> top_k(A, B, k=1).values.round(6).tolist()
    [2.366025]
    """
    kept = _checkpoint(checkpoint, resume)
    problem = Pencil(A, B, which)
    k = check_index("k", k, 1, problem.d, f"the size of A, {problem.d}")
    tol, rng = check_number("tol", tol, above=0, below=1), generator(rng)
    _check_callback(callback)
    problem, units = in_units(problem, rng)
    check_pencil(problem, rng)
    request = Request(problem, k, tol, rng, units.told(callback))
    solution: EigenSolution = units.back(_solved(request, units.method(method), kept, resume))
    _warn_if_unconverged(solution, tol)
    return solution


def top_k_cca(
    X: Any,
    Y: Any,
    k: int = 1,
    *,
    reg: Any = 0.0,
    shrinkage: Any = None,
    center: bool = True,
    scale: bool = False,
    form: bool | None = None,
    method: Any = None,
    tol: float = 1e-6,
    rng: Rng = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    resume: bool = False,
) -> CCASolution:
    """Top-k canonical correlations between the columns of X and of Y.

    Parameters
    ----------
    X, Y : (n, d₁) and (n, d₂), dense or scipy.sparse, with the same rows. Sparse data are never
        made dense.
    k : number of pairs, 1 ≤ k ≤ min(d₁, d₂).
    reg : ridge on the covariances (which are divided by n), one for both or a pair.
    shrinkage : instead of reg: (1 − s)·S + s·tr(S)/d·I, one for both or a pair.
    center, scale : subtract column means, divide columns by their standard deviations.
    form : True forms the covariances once, False reads the data for every product; None decides
        by their size.
    method : None lets genelin choose; or `CCALin`, `Dense` with their settings, or a baseline of
        `genelin.baselines`.
    tol : stop when the residual of every pair, in the B⁻¹-norm, is at most tol·σ₁.
    rng, callback, checkpoint, resume : as for `top_k`.

    Returns
    -------
    CCASolution
        correlations, x_weights, y_weights, score_correlations, residuals, sin_theta_bound,
        status, converged, cost, trace.

    Warns
    -----
    RankDeficiencyWarning
        If reg = 0 and the columns of X or Y are dependent: the answer is on their range.
    ConvergenceWarning
        If the tolerance was not reached; `status` says why and what to do.
    CheckpointWarning
        If a state could not be written (the run goes on), or there was none to resume.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_linnerud
    >>> from genelin import top_k_cca
    >>> X, Y = load_linnerud(return_X_y=True)
    >>> top_k_cca(X, Y, k=3).correlations.round(6).tolist()
    [0.795608, 0.200556, 0.07257]
    """
    problem = TwoView(X, Y, reg, center, scale, shrinkage, form)
    return solve_cca(
        problem,
        k,
        method=method,
        tol=tol,
        rng=rng,
        callback=callback,
        checkpoint=checkpoint,
        resume=resume,
    )


def solve_cca(
    problem: TwoView,
    k: int,
    *,
    method: Any = None,
    tol: float = 1e-6,
    rng: Rng = 0,
    callback: Callback | None = None,
    checkpoint: Any = None,
    resume: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> CCASolution:
    """`top_k_cca` of a `TwoView`.

    Parameters
    ----------
    problem : two views.
    k, method, tol, rng, callback, checkpoint, resume : as for `top_k_cca`.
    settings : those of the method that are replaced where it has them, whichever it is.

    Examples
    --------
    >>> import numpy as np
    >>> problem = TwoView(np.eye(3), np.eye(3)[:, :2], center=False)
    >>> solve_cca(problem, 1, settings={"max_iter": 5}).correlations.round(6).tolist()
    [1.0]
    """
    kept = _checkpoint(checkpoint, resume)
    most = min(problem.splits)
    k = check_index("k", k, 1, most, f"the smaller number of columns, {most}")
    tol, rng = check_number("tol", tol, above=0, below=1), generator(rng)
    _check_callback(callback)
    request = Request(problem, k, tol, rng, callback)
    solution: CCASolution = _solved(request, method, kept, resume, settings or {})
    _warn_if_unconverged(solution, tol)
    return solution


def plan_top_k(
    A: Any, B: Any = None, k: int = 1, *, which: Which = "LM", tol: float = 1e-8
) -> Plan:
    """What `top_k(A, B, k)` would do, at what cost, and what else could be done.

    Parameters
    ----------
    A, B, k, which, tol : as for `top_k`.

    Returns
    -------
    Plan
        routes with predicted seconds, passes and memory, the chosen one first; print it.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import plan_top_k
    >>> plan = plan_top_k(np.diag(np.arange(1.0, 101.0)), k=3)
    >>> plan.chosen.name, plan.chosen.passes
    ('dense', 1.0)
    """
    problem = Pencil(A, B, which)
    k = check_index("k", k, 1, problem.d, f"the size of A, {problem.d}")
    tol = check_number("tol", tol, above=0, below=1)
    return measured_plan(problem, k, tol)


def plan_cca(
    X: Any,
    Y: Any,
    k: int = 1,
    *,
    reg: Any = 0.0,
    shrinkage: Any = None,
    center: bool = True,
    scale: bool = False,
    form: bool | None = None,
    tol: float = 1e-6,
    cluster: ClusterSpec | None = None,
) -> Plan:
    """What `top_k_cca(X, Y, k)` would do, at what cost, and what else could be done.

    Speeds are measured on this machine (about a second, once in a process). Where the route is
    iterative, two columns are solved for to see how well conditioned the covariances are, and the
    iteration is begun unless it would be long: that takes up to a third of the time of a short one.

    Parameters
    ----------
    X, Y, k, reg, shrinkage, center, scale, form, tol : as for `top_k_cca`; data that do not exist
        yet are described by a `DataSpec` each.
    cluster : plan for these workers instead of this machine: the data are taken to be in their
        memory already, and their cores to be as fast as those here.

    Returns
    -------
    Plan
        routes with predicted seconds, passes and memory, the chosen one first; on a cluster also
        the memory of the client and the bytes on the wire. Print it.

    Examples
    --------
    >>> import numpy as np
    >>> from genelin import plan_cca
    >>> rng = np.random.default_rng(0)
    >>> plan = plan_cca(rng.random((500, 20)), rng.random((500, 30)), k=2)
    >>> print(str(plan).splitlines()[0])
    plan for 2 canonical pairs of X (500 × 20) and Y (500 × 30)
    >>> plan.chosen.name, plan.chosen.method
    ('dense', Dense())

    >>> from genelin import ClusterSpec, DataSpec
    >>> X, Y = DataSpec(10**9, 10**6, nonzeros=100), DataSpec(10**9, 10**6, nonzeros=100)
    >>> plan = plan_cca(X, Y, k=100, cluster=ClusterSpec(64, 16, 64e9, 1.25e9))
    >>> plan.chosen.name, plan.chosen.traffic > 1e12
    ('data as operator', True)
    """
    if cluster is not None and not isinstance(cluster, ClusterSpec):
        raise TypeError(f"cluster={cluster!r} must be a ClusterSpec, or None for this machine")
    imagined = isinstance(X, DataSpec) or isinstance(Y, DataSpec)
    if imagined:
        X, Y = described(X, Y)
    problem = TwoView(X, Y, reg, center, scale, shrinkage, form)
    most = min(problem.splits)
    k = check_index("k", k, 1, most, f"the smaller number of columns, {most}")
    tol = check_number("tol", tol, above=0, below=1)
    if cluster is None:
        machine = replace(default_machine(), profile=measured())
        return planned(problem, k, machine) if imagined else measured_plan(problem, k, tol)
    steps = None if imagined else trial_steps(problem)
    return planned_on(cluster, problem, k, measured(), STEPS if steps is None else steps)


def _solved(
    request: Request,
    method: Any,
    kept: Checkpoint | None,
    resume: bool,
    settings: Mapping[str, Any] = {},
) -> Any:
    """The solution of a request by a method, or by the one that is best for it."""
    files = None if kept is None else FileCheckpointer(kept, request.rng, resume)
    machine = _recorded_machine(files) or default_machine()
    route = None
    if method is None:
        route = best_route(request.problem, request.k, machine)
        request = replace(request, problem=route.problem)
        method = route.method
    elif isinstance(method, type) or not callable(method):
        raise TypeError(
            f"method={method!r} is not an eigen method: pass None, GenELinK(), CCALin() or Dense()"
        )
    chosen = as_method(method)
    chosen.refuse_other_problems(request.problem)
    chosen = chosen.with_settings(settings)
    if isinstance(request.problem, TwoView):
        _refuse_deficient(request.problem, request.k)
    with our_work():
        solution = (
            chosen.solve(request) if files is None else _kept(request, chosen, files, machine)
        )
    if route is None:
        return solution
    cost = replace(solution.cost, passes=solution.cost.passes + route.trial)
    return replace(solution, route=f"{route.name}: {route.why}", cost=cost)


def _kept(request: Request, method: Method, files: FileCheckpointer, machine: Machine) -> Any:
    """The solution of a run whose state is kept, or which goes on with what is there."""
    problem = request.problem
    files.compare(fingerprint(problem, request.k, request.tol, method), asdict(machine))
    if files.solution is not None:
        files.restore_random()
        refuse_wrong_answer(problem, files.solution, files.path)
        return files.solution
    with files:
        solution = method.solve(replace(request, checkpoint=files))
        files.finish(solution)
    return solution


def _recorded_machine(files: FileCheckpointer | None) -> Machine | None:
    """That of an earlier run, whose plan is made once more."""
    if files is None or files.machine is None:
        return None
    with files.resuming():
        speeds = {
            name: type(getattr(DEFAULT_PROFILE, name))(value)
            for name, value in files.machine["profile"].items()
        }
        return Machine(Profile(**speeds), float(files.machine["memory"]))


def _refuse_deficient(problem: TwoView, k: int) -> None:
    """Raise, or warn, if the columns of a view are dependent."""
    for deficiency in problem.deficiencies:
        if deficiency.rank is not None and k > deficiency.rank:
            raise ValueError(
                f"k={k} is more than the numerical rank {deficiency.rank} of {deficiency.name}: "
                "ask for fewer pairs, or set reg > 0"
            )
        warnings.warn(deficiency.message, RankDeficiencyWarning, stacklevel=5)


def _checkpoint(checkpoint: Any, resume: Any) -> Checkpoint | None:
    check_flag("resume", resume)
    if checkpoint is None and resume:
        raise ValueError("resume=True needs checkpoint=, the folder with the state to resume")
    return None if checkpoint is None else Checkpoint.of(checkpoint)


def _check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} must be a function of (record, W), or None")


def _warn_if_unconverged(solution: Any, tol: float) -> None:
    if not solution.converged:
        warnings.warn(
            f"{solution.status} (largest residual {solution.residuals.max():.1e} in the B⁻¹-norm, "
            f"tol={tol:g}, after {len(solution.trace)} outer iterations)",
            ConvergenceWarning,
            stacklevel=3,
        )
