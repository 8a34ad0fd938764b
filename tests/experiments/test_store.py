"""What the store keeps when the worst happens to its file."""

import threading

import pytest
from mcf_cli.errors import McfError
from mcf_cli.experiments.store import Store


def record(number: int, **more) -> dict:
    return {"key": f"key{number}", "status": "ok", "seconds": 0.5, "rows": [{"value": 0.1 * number}], **more}


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path, "item")
    with store.writing():
        for number in range(3):
            store.append(record(number))
    return store


def test_records_come_back_as_they_went_in(store):
    assert list(store.records().values()) == [record(number) for number in range(3)]


def test_the_last_record_of_a_key_counts(store):
    with store.writing():
        store.append(record(1, status="failed", reason="again"))
    assert store.records()["key1"]["status"] == "failed"


def test_cut_anywhere_only_the_last_record_is_lost_and_the_next_append_is_sound(store):
    content = store.path.read_bytes()
    end_of_second = content.rfind(b"\n", 0, -1) + 1
    for cut in range(end_of_second, len(content)):
        store.path.write_bytes(content[:cut])
        assert set(store.records()) == {"key0", "key1"}
        with store.writing():
            store.append(record(7))
        assert set(store.records()) == {"key0", "key1", "key7"}


def test_a_changed_byte_makes_its_record_unknown_and_no_other(store):
    content = store.path.read_bytes()
    middle = content.index(b"key1")
    for offset in range(0, 60, 7):
        damaged = bytearray(content)
        damaged[middle + offset] ^= 1
        store.path.write_bytes(bytes(damaged))
        assert {"key0", "key2"} <= set(store.records())
        assert store.records().get("key1") in (None, record(1))
        assert "key1" not in store.records() or bytes(damaged) == content


def test_a_second_writer_is_refused_and_told_who_holds_it(store, tmp_path):
    with store.writing(), pytest.raises(McfError, match="is being written by process"), store.writing():
        pass


def test_a_second_writer_may_wait(store):
    order = []
    first_inside, second_started = threading.Event(), threading.Event()

    def second():
        first_inside.wait()
        second_started.set()
        with Store(store.folder.parent.parent, "item").writing(wait=True):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with store.writing():
        first_inside.set()
        second_started.wait()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_nan_is_never_stored(store):
    with store.writing(), pytest.raises(ValueError, match="JSON"):
        store.append({"key": "x", "rows": [{"value": float("nan")}]})
