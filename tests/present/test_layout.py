"""Layout and communities: what belongs together is found and drawn together."""

import time
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy.sparse import csr_array

from hazeglass.present.layout import Drawing, communities, community_order, drawn_nodes, node_positions


def blocks(*sizes, bridge=True):
    """Cliques of the given sizes, joined in a chain by single edges."""
    p = sum(sizes)
    weights = np.zeros((p, p))
    starts = np.cumsum([0, *sizes])
    for a, b in pairwise(starts):
        weights[a:b, a:b] = 1
    if bridge:
        for b in starts[1:-1]:
            weights[b - 1, b] = weights[b, b - 1] = 1
    np.fill_diagonal(weights, 0)
    return weights


@pytest.mark.parametrize("sizes", [(5, 4, 3), (8, 8), (4, 4, 4, 4)])
def test_cliques_joined_by_a_thread_are_found(sizes):
    shuffled = np.random.default_rng(1).permutation(sum(sizes))
    weights = blocks(*sizes)[np.ix_(shuffled, shuffled)]
    groups = communities(weights)
    truth = np.repeat(np.arange(len(sizes)), sizes)[shuffled]
    assert len({(g, t) for g, t in zip(groups, truth, strict=True)}) == len(sizes)
    assert (np.diff(groups[community_order(groups, weights)]) >= 0).all()


def test_lone_nodes_are_groups_of_their_own_at_the_end():
    weights = np.zeros((5, 5))
    weights[3, 4] = weights[4, 3] = 1
    assert communities(weights).tolist() == [1, 2, 3, 0, 0]
    assert communities(np.zeros((3, 3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize("p", [1, 2, 3, 11, 60])
def test_nodes_lie_in_the_square_and_apart(p):
    rng = np.random.default_rng(p)
    upper = np.triu(rng.random((p, p)) < 1.5 / p, 1)
    spots = node_positions(upper | upper.T)
    assert spots.shape == (p, 2)
    assert (spots >= 0).all()
    assert (spots <= 1).all()
    gaps = np.linalg.norm(spots[:, None] - spots[None], axis=2) + np.eye(p)
    assert gaps.min() > 1e-3


def test_many_nodes_with_the_same_links_lie_apart():
    star = nx.to_numpy_array(nx.star_graph(299)) > 0
    spots = node_positions(star)
    gaps = np.linalg.norm(spots[:, None] - spots[None], axis=2) + np.eye(300)
    assert gaps.min() > 1e-3
    assert np.array_equal(spots, node_positions(star))


def test_linked_nodes_are_nearer_than_others():
    adjacency = blocks(6, 6, 6) > 0
    spots = node_positions(adjacency)
    gaps = np.linalg.norm(spots[:, None] - spots[None], axis=2)
    off = ~np.eye(18, dtype=bool)
    assert gaps[adjacency].mean() < 0.6 * gaps[off & ~adjacency].mean()


def test_a_sparse_matrix_of_many_nodes_is_grouped_quickly():
    graph = nx.planted_partition_graph(20, 100, 0.05, 0.0005, seed=1)
    matrix = nx.to_scipy_sparse_array(graph, dtype=float)
    started = time.process_time()
    groups = communities(matrix)
    assert time.process_time() - started < 10
    assert np.array_equal(groups, communities(matrix.toarray()))
    ours = [set(np.flatnonzero(groups == g).tolist()) for g in np.unique(groups)]
    truth = [set(range(100 * k, 100 * (k + 1))) for k in range(20)]
    modularity = nx.community.modularity
    assert modularity(graph, ours) > 0.9 * modularity(graph, truth)


def test_the_picture_of_a_large_graph_shows_its_largest_communities():
    sizes = [250, 200, 140, 300, 30]
    graph = nx.disjoint_union_all([nx.connected_watts_strogatz_graph(size, 30, 0.9, seed=size) for size in sizes])
    graph.add_nodes_from(range(920, 1200))
    links = nx.to_scipy_sparse_array(graph, dtype=float, format="csr")
    groups = np.concatenate([np.repeat([1, 2, 3, 0, 4], sizes), np.arange(5, 285)])
    drawn = drawn_nodes(groups, links)
    assert set(groups[drawn]) == {0, 1}
    assert len(drawn) == 550
    assert node_positions(links[drawn][:, drawn].toarray() > 0).shape == (550, 2)


def test_a_community_too_large_for_the_picture_is_shown_around_its_best_linked_node():
    graph = nx.barabasi_albert_graph(2_000, 2, seed=1)
    links = nx.to_scipy_sparse_array(graph, dtype=float, format="csr")
    drawn = drawn_nodes(np.zeros(2_000, dtype=np.int64), links)
    assert len(drawn) == 600
    assert max(dict(graph.degree).items(), key=lambda entry: entry[1])[0] in drawn
    assert nx.is_connected(graph.subgraph(drawn.tolist()))


def test_communities_of_a_large_graph_are_discs_apart_from_each_other():
    rng = np.random.default_rng(0)
    group = np.arange(300) // 20
    linked = np.triu((group[:, None] == group[None, :]) & (rng.random((300, 300)) < 0.3), 1)
    linked[0, 25] = linked[40, 299] = True
    drawing = Drawing.of(csr_array((linked | linked.T).astype(float)))
    assert drawing.spots.shape == (300, 2)
    assert drawing.spots.min() >= 0
    assert drawing.spots.max() <= 1
    centres = np.array([drawing.spots[drawing.groups == k].mean(axis=0) for k in range(15)])
    reach = [np.linalg.norm(drawing.spots[drawing.groups == k] - centres[k], axis=1).max() for k in range(15)]
    apart = np.linalg.norm(centres[:, None] - centres[None, :], axis=2) + np.eye(15)
    assert apart.min() > 0.8 * 2 * np.median(reach)
    assert np.array_equal(drawing.spots, Drawing.of(csr_array((linked | linked.T).astype(float))).spots)
