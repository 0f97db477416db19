from agentrewind.ui.steps import Left, Step, rows


def shape(tree):
    return [
        (row.depth, f"<-{row.move.target[-1]}")
        if isinstance(row, Left)
        else (row.depth, "".join(n.uid[-1] for n in row.nodes))
        for row in rows(tree)
    ]


def test_an_empty_run_has_no_rows(run):
    assert rows(run.tree) == []


def test_tool_calls_belong_to_the_step_of_their_model_call(run):
    run.node("shell(ls)")
    run.node(tool="shell")
    run.node(tool="shell")
    run.node()
    assert shape(run.tree) == [(0, "123"), (0, "4")]


def test_what_was_abandoned_stands_where_the_new_path_begins(run):
    run.node()
    run.node(tool="shell")
    target = run.node()
    run.node(tool="shell")
    run.node()
    run.rewind(target)
    run.node()
    assert shape(run.tree) == [(0, "12"), (1, "34"), (1, "5"), (1, "<-3"), (0, "6")]


def test_a_rewind_to_the_first_call_abandons_everything(run):
    first = run.node()
    run.node()
    run.rewind(first)
    run.node()
    assert shape(run.tree) == [(1, "1"), (1, "2"), (1, "<-1"), (0, "3")]


def test_a_rewind_inside_an_abandoned_path_is_one_level_deeper(run):
    run.node()
    second = run.node()
    third = run.node()
    run.node()
    run.rewind(third)
    run.node()
    run.rewind(second)
    run.node()
    assert shape(run.tree) == [
        (0, "1"),
        (1, "2"),
        (2, "3"),
        (2, "4"),
        (2, "<-3"),
        (1, "5"),
        (1, "<-2"),
        (0, "6"),
    ]


def test_after_an_undo_the_old_path_is_the_current_one_again(run):
    run.node()
    second = run.node()
    third = run.node()
    run.rewind(second)
    run.node()
    run.rewind(third, note="", why="undo")
    run.node()
    assert shape(run.tree) == [(0, "1"), (1, "4"), (1, "<-3"), (0, "2"), (0, "3"), (0, "<-2"), (0, "5")]


def test_a_rewind_without_a_call_after_it_keeps_the_path_before_it(run):
    run.node()
    second = run.node()
    run.rewind(second)
    assert shape(run.tree) == [(0, "1"), (1, "2"), (1, "<-2")]


def test_every_node_stands_once_even_in_a_long_run(run):
    for _ in range(3000):
        run.node()
    run.rewind(run.tree.path()[5].uid)
    run.node()
    found = [node.uid for row in rows(run.tree) if isinstance(row, Step) for node in row.nodes]
    assert sorted(found) == sorted(run.tree.nodes)


def test_the_changes_of_a_step_are_those_of_its_calls(run):
    run.node("shell(x)")
    run.node(tool="shell", changed="b.py")
    run.node(tool="shell", changed="a.py")
    (step,) = rows(run.tree)
    assert [change.path for change in step.changes] == ["a.py", "b.py"]
    assert step.changed == 2
