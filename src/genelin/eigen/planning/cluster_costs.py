"""Routes on a cluster: rows stay with the workers, blocks travel, the client keeps the basis."""

from __future__ import annotations

from dataclasses import dataclass

from genelin.eigen.costs.formulas import Moment, decomposing, forming, moment_of, moment_pairs
from genelin.eigen.costs.machine import Profile
from genelin.eigen.costs.plan import Plan, Route, duration
from genelin.eigen.methods.davidson import OUTER_ITERATIONS, Davidson, basis_memory, basis_seconds
from genelin.eigen.methods.dense import Dense
from genelin.eigen.planning.cluster import GROUP, ClusterSpec, DataSpec
from genelin.problems import SMALL, TwoView, worth_forming

__all__ = ["planned_on"]

BUSY = 4  # cores that a decomposition, or writing to memory, keeps busy
SINGLE, DOUBLE = 4.0, 8.0  # bytes of a number in a correction, and in an expansion of the basis
ROUNDS = 3  # sums for an expansion: products with S_x, S_y and S_xy


def planned_on(
    cluster: ClusterSpec, problem: TwoView, k: int, profile: Profile, steps: int
) -> Plan:
    """Routes to k canonical pairs on a cluster whose cores are those that `profile` was taken on.

    Examples
    --------
    >>> from genelin.eigen.planning.cluster import described
    >>> from genelin.eigen.costs.machine import DEFAULT_PROFILE
    >>> data = TwoView(*described(DataSpec(10**8, 500), DataSpec(10**8, 500)))
    >>> plan = planned_on(ClusterSpec(8, 16, 64e9, 1.25e9), data, 10, DEFAULT_PROFILE, 20)
    >>> plan.chosen.name, plan.chosen.passes, f"{plan.chosen.traffic:.0f}"
    ('dense', 1.0, '64000000')
    """
    site = _Site(cluster, problem, k, profile)
    routes = [site.dense()]
    if max(problem.splits) > SMALL:
        wanted = [worth_forming(*pair, problem.form) for pair in moment_pairs(problem)]
        alternatives = [wanted] if problem.form is not None else [wanted, [not any(wanted)] * 3]
        routes += [site.davidson(steps, formed) for formed in alternatives]
    routes.sort(key=lambda route: (not site.fits(route), route.seconds))
    x, y = (f"{rows.n} × {rows.d}" for rows in (problem.X, problem.Y))
    return Plan(f"{k} canonical pairs of X ({x}) and Y ({y})", tuple(routes), cluster)


@dataclass(frozen=True)
class _Site:
    """The cluster with its speeds, and the job."""

    cluster: ClusterSpec
    problem: TwoView
    k: int
    profile: Profile  # of this machine

    @property
    def _of_client(self) -> Profile:
        return _on_cores(self.profile, self.cluster.cores)

    @property
    def _of_all(self) -> Profile:
        return _on_cores(self.profile, self.cluster.cores * self.cluster.workers)

    @property
    def _share(self) -> float:
        """Bytes of the data that a worker keeps."""
        views = (self.problem.X, self.problem.Y)
        return sum(DataSpec.of(rows).bytes for rows in views) / self.cluster.workers

    def dense(self) -> Route:
        """Covariances by the workers, in one pass, and everything else by the client."""
        dx, dy = (float(d) for d in self.problem.splits)
        seconds = forming(self.problem, self._of_all) + decomposing(dx, dy, self.k, self._of_client)
        moment, numbers = DOUBLE * (dx + dy) ** 2, dx**2 + dy**2 + dx * dy
        return Route(
            "dense",
            seconds + self.cluster.seconds(0.0, moment) + self.cluster.latency,
            1.0,
            self._share + (GROUP + 1) * moment,
            "covariances in one pass by the workers, decomposed by the client",
            self.problem,
            Dense(),
            self.cluster.traffic(0.0, moment),
            3 * DOUBLE * numbers,
        )

    def davidson(self, steps: int, formed: list[bool]) -> Route:
        """`Davidson` at the client; products with what is not formed go to the workers."""
        of_all, of_client = (
            [moment_of(*pair, profile) for pair in moment_pairs(self.problem)]
            for profile in (self._of_all, self._of_client)
        )
        chosen = [i for i, is_formed in enumerate(formed) if is_formed]
        rest = [i for i in range(3) if i not in chosen]
        streamed = rest[:2] if len(rest) == 3 else rest  # all three take one sweep
        width, d = Davidson.width(self.k), float(sum(self.problem.splits))
        products = (4 + steps) * width * OUTER_ITERATIONS
        computing = sum(of_all[i].forming for i in chosen)
        computing += products * sum(of_client[i].formed for i in chosen)
        computing += products * sum(of_all[i].streamed for i in streamed)
        computing += basis_seconds(d, width, steps, self._of_client)
        block = d * width if rest else 0.0  # numbers
        sent = OUTER_ITERATIONS * (steps * SINGLE + 2 * DOUBLE) * block
        moments = sum(_bytes(of_all[i], self.problem) for i in chosen)
        rounds = len(chosen) + OUTER_ITERATIONS * (steps + ROUNDS) * bool(rest)
        wire = self.cluster.seconds(sent, sent + moments) + rounds * self.cluster.latency
        memory = self._share + (self.cluster.cores + GROUP + 1) * block * SINGLE
        return Route(
            "covariances formed" if chosen else "data as operator",
            computing + wire,
            2.0 * bool(chosen) + (4.0 + steps) * OUTER_ITERATIONS * bool(rest),
            memory + (GROUP + 1) * moments,
            f"{duration(computing)} of work and {duration(wire)} on the wire; "
            f"about {OUTER_ITERATIONS} outer iterations of {steps} steps on {width} columns",
            self.problem.replace(form=bool(chosen)),
            Davidson(),
            self.cluster.traffic(sent, sent + moments),
            basis_memory(d, width) + 2 * moments,
        )

    def fits(self, route: Route) -> bool:
        """Whether workers and client have the memory."""
        return max(route.memory, route.client_memory) <= self.cluster.memory


def _bytes(moment: Moment, problem: TwoView) -> float:
    """Of a covariance, with its indices where it is sparse."""
    sparse = problem.X.is_sparse and problem.Y.is_sparse
    return moment.entries * (DOUBLE + 4.0 if sparse else DOUBLE)


def _on_cores(profile: Profile, cores: int) -> Profile:
    """Speeds with so many cores: kernels share their rows out, and grow with their number."""
    kernels, blas, busy = profile.threads, profile.blas_threads, min(cores, BUSY)
    return Profile(
        multiply=profile.multiply * blas / cores,
        decompose=profile.decompose * min(blas, BUSY) / busy,
        reduce=profile.reduce * min(blas, BUSY) / busy,
        sweep=profile.sweep * kernels / cores,
        entry=profile.entry * kernels / cores,
        form=profile.form / cores,
        touch=profile.touch / busy,
        factor=profile.factor,
        threads=cores,
        blas_threads=cores,
    )
