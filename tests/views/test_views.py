"""What pictures and pages share gives both the same branches, places, names and colours."""

from __future__ import annotations

import numpy as np
import pytest

from annealed import ODAClassifier, ODAClustering
from annealed.report.gather import gather
from annealed.report.inputs import read_inputs
from annealed.views.colours import MOST_BRANCHES, PALETTE, as_hex, branch_colour
from annealed.views.lineage import branch_of_nodes, find_branches, find_heads, spread_leaves
from annealed.views.names import name_classes, name_features
from annealed.views.projection import choose_plane, principal_axes, project

MOTHER = {"left": "root", "right": "root", "a": "left", "b": "left"}


def contents_of(model, X=None):
    nothing = dict.fromkeys(
        ("feature_names", "class_names", "n_codevectors", "divergence", "inverse", "title",
         "n_rows", "row_numbers")
    )  # fmt: skip
    return gather(read_inputs(model, X, None, **nothing), seed=0)


@pytest.fixture(scope="module")
def groups():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(60, 5)) + c for c in (0, 6, 12, 18)])


def test_a_head_stands_for_its_ancestors_until_another_head_descends_from_them():
    nodes = ("root", *MOTHER, "stranger")
    expected = {"root": -1, "left": -1, "right": 2, "a": 0, "b": 1, "stranger": -1}
    assert branch_of_nodes(nodes, ["a", "b", "right"], MOTHER) == expected
    assert branch_of_nodes(["root", "b"], ["left"], MOTHER) == {"root": 0, "b": 0}


def test_leaves_are_counted_and_others_stand_amid_their_children():
    children = {"root": ["left", "right"], "left": ["a", "b"], "right": ["only"]}
    places = spread_leaves(["root", "other"], lambda node: children.get(node, []))
    expected = {"a": 0, "b": 1, "only": 2, "other": 3, "left": 0.5, "right": 2, "root": 1.25}
    assert places == expected


@pytest.mark.parametrize("n_clusters", [3, 4, "auto"])
def test_pages_and_pictures_colour_the_same_clusters(groups, n_clusters):
    model = ODAClustering(n_clusters, shape="round", random_state=0).fit(groups)
    branches, names = find_branches(model.path_, nodes=model.nodes_)
    contents = contents_of(model, groups)
    assert contents.branches == names == [f"cluster {i}" for i in range(model.n_clusters_)]
    for level, branch in zip(contents.levels, branches, strict=True):
        assert [contents.nodes[node].branch for node in level.nodes] == branch.tolist()


def test_a_model_of_another_cut_of_the_tree_still_has_its_own_clusters_on_the_page(groups):
    """As a polish can leave: the clusters are found by their nodes, wherever they have moved."""
    model = ODAClustering(4, random_state=0).fit(groups)
    order = np.array([2, 0, 3, 1])
    shuffled = type(
        "Shuffled", (), {
            "path_": model.path_, "temperature_": 0.0, "nodes_": model.nodes_[order],
            "codevectors_": model.codevectors_[order], "weights_": model.weights_[order],
        },
    )()  # fmt: skip
    contents = contents_of(shuffled)
    assert contents.branches == [f"cluster {i}" for i in range(4)]
    place = dict(zip(model.nodes_[order].tolist(), range(4), strict=True))
    found = {contents.nodes[n].name: contents.nodes[n].branch for n in contents.levels[-1].nodes}
    assert set(found.values()) == set(range(4))
    assert all(found.get(f"#{node}", i) == i for node, i in place.items())


def test_more_clusters_than_colours_are_the_parts_of_the_first_splits(groups):
    path = ODAClustering(None, random_state=0).fit(groups).path_
    last = path[-1].nodes.tolist()
    assert len(last) > MOST_BRANCHES == 2 * len(PALETTE)
    heads, in_use = find_heads(path, nodes=last)
    assert len(heads) == len(PALETTE) and not in_use
    assert contents_of(path).branches == [f"branch {i + 1}" for i in range(len(PALETTE))]


def test_pages_and_pictures_show_the_same_first_axis(groups):
    path = ODAClustering(random_state=0).fit(groups).path_
    positions, name = project(path, None, None)
    last = path[-1].codevectors
    plane = choose_plane(last, last, [f"x{j}" for j in range(5)])
    assert plane.axes[0] == name and name.startswith("first principal component (")
    np.testing.assert_allclose(plane.place(last)[:, 0], positions[-1], atol=1e-9)
    middle, directions, share = principal_axes(last[:1], 2)  # one row differs in no direction
    assert (share == 0).all() and (middle == last[0]).all() and (directions[1] == 0).all()


def test_names_are_those_given_or_made_up():
    assert name_features(None, 2) == ["feature 0", "feature 1"]
    assert name_classes([3, "red"], 2) == ["class 3", "red"]
    with pytest.raises(ValueError, match="3 feature names were given for 2 features"):
        name_features(["a", "b", "c"], 2)


def test_classes_are_named_alike_on_pages_and_in_pictures(groups):
    y = np.repeat([0, 1], 120)
    model = ODAClassifier(random_state=0, level="last", fine_tune=None).fit(groups, y)
    assert contents_of(model).branches == find_branches(model.path_, class_names=[0, 1])[1]


def test_colours_as_hexadecimal_digits():
    assert as_hex((0.0, 0.45, 0.70)) == "#0073b2"
    assert len({as_hex(branch_colour(b)) for b in range(MOST_BRANCHES)}) == MOST_BRANCHES
