"""Eigenvectors against their definition, and signs that are the same on every machine."""

import numpy as np
import pytest

from manihash.linalg import column_signs, fix_signs, inverse_square_root, leading_eigenvectors


@pytest.fixture
def M():
    A = np.random.default_rng(0).standard_normal((8, 5))
    return A.T @ A


def test_fixed_signs_do_not_depend_on_the_signs_given():
    V = np.random.default_rng(1).standard_normal((6, 4))
    flipped = V * np.array([1, -1, -1, 1])
    assert np.array_equal(fix_signs(V), fix_signs(flipped))
    assert (fix_signs(V)[np.abs(V).argmax(axis=0), range(4)] > 0).all()


def test_a_column_of_zeros_has_the_sign_one():
    assert column_signs(np.zeros((3, 2))).tolist() == [1, 1]


def test_leading_eigenvectors_are_those_of_the_largest_eigenvalues_in_descending_order(M):
    values, vectors = leading_eigenvectors(M, 3)
    assert np.allclose(values, np.linalg.eigvalsh(M)[:1:-1])
    assert np.allclose(M @ vectors, vectors * values)
    assert np.allclose(vectors.T @ vectors, np.eye(3))


def test_more_eigenvectors_than_dimensions_give_all_of_them(M):
    assert leading_eigenvectors(M, 9)[1].shape == (5, 5)


def test_the_inverse_square_root_inverts_the_matrix_in_the_directions_that_are_not_zero(M):
    low_rank = M - leading_eigenvectors(M, 5)[0][-1] * np.outer(*2 * [leading_eigenvectors(M, 5)[1][:, -1]])
    root = inverse_square_root(*np.linalg.eigh(low_rank), 1e-10)
    assert np.allclose(root @ root, np.linalg.pinv(low_rank, rcond=1e-10))
    assert np.allclose(root, root.T)
