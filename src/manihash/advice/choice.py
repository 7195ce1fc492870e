"""The result of ``choose``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manihash.hashers._hasher import Hasher
from manihash.hashers.recipes import recipe


@dataclass(frozen=True, eq=False)
class Choice:
    """A recommended encoder, and what it was compared with: the result of ``choose``.

    Parameters
    ----------
    recipe : str
        Name of the recommended recipe.
    n_bits : int
        Recommended length of the codes.
    radius : int
        Hamming radius for look-ups: the largest one at which the expected number of rows stays within
        ``max_candidates``. For codes of two parts (``imh-hybrid``) it is a radius of the first part.
    goal : str
        The goal that the score measures.
    relevance : {"labels", "clusters and neighbors"}
        Which rows count as relevant: rows of the query's label; or rows of the query's community of the
        neighbor graph (``map``, ``precision_at_10``) and the nearest 2 % of the rows (``nearest_map``,
        ``nearest_precision_at_10``).
    table : list of dict
        One record per candidate, best score first; ``pandas.DataFrame(choice.table)`` shows it as a table.
        Candidates that could not be measured have no score, but a ``reason``.
    reasons : list of str
        The advice in plain sentences.
    sample : str
        What the sample was.
    peer : str or None
        Quantizer of FAISS that serves the goal better with the same number of bytes, such as ``"faiss-pq"``;
        None if there is none, or if FAISS is not installed.
    random_state : int
        Seed of the measurement, and of the hasher that ``build`` returns.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manihash import choose
    >>> X, y = load_digits(return_X_y=True)
    >>> choice = choose(X[:400], n_bits=16, goal="ranking", labels=y[:400])
    >>> hasher = choice.build().fit(X)
    >>> hasher.encode(X).shape[1] * 8 == choice.n_bits
    True
    """

    recipe: str
    n_bits: int
    radius: int
    goal: str
    relevance: str
    table: list[dict[str, Any]]
    reasons: list[str]
    sample: str
    peer: str | None = None
    random_state: int = 0

    def build(self) -> Hasher:
        """Return the recommended hasher, not fitted yet.

        Returns
        -------
        Hasher
            An unfitted hasher; call ``fit`` with all rows.
        """
        hasher: Hasher = recipe(self.recipe, n_bits=self.n_bits, random_state=self.random_state)
        return hasher

    @property
    def best(self) -> Mapping[str, Any]:
        """The record of the recommended candidate.

        Returns
        -------
        dict
            Its record in ``table``.
        """
        return next(row for row in self.table if _is(row, self.recipe, self.n_bits))

    def __str__(self) -> str:
        return " ".join(self.reasons)


def _is(row: Mapping[str, Any], name: str, n_bits: int) -> bool:
    return bool(row["recipe"] == name and row["n_bits"] == n_bits)
