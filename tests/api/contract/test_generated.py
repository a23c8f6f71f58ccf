"""Test the generated files of the contract: up to date, independent of the environment, and valid."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import typing
from pathlib import Path

import jsonschema
import msgspec
import pytest

from understudy.api import contract, method_table
from understudy.api.contract import catalogue, readme_tables
from understudy.api.contract.__main__ import main
from understudy.model.errors import ErrorKind
from understudy.model.states import TRANSITIONS, State

TOP = Path(__file__).parents[3]
PROTOCOL = TOP / "protocol"


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROTOCOL, tmp_path / "protocol"))


def test_no_generated_file_is_stale():
    assert contract.stale(PROTOCOL) == [], "Run `make generate` and commit the changed files."


def test_stale_missing_and_obsolete_files_are_reported_and_fixed(published: Path, capsys: pytest.CaptureFixture[str]):
    (published / "schema" / "Delegation.json").unlink()
    (published / "schema" / "Gone.json").write_text("{}")
    openrpc = published / "openrpc.json"
    openrpc.write_text(openrpc.read_text().replace("delegations/start", "delegations/begin"))
    page = published / "README.md"
    page.write_text(page.read_text().replace("| `verified` |", "| `proven` |"))
    assert main(["--check", str(published)]) == 1
    said = capsys.readouterr().err
    for name in (
        "Delegation.json is missing",
        "Gone.json is no longer generated",
        "openrpc.json is out of date",
        "README.md is out of date",
    ):
        assert name in said
    assert "make generate" in said
    assert main([str(published)]) == 0
    assert main(["--check", str(published)]) == 0


def test_text_outside_of_the_markers_is_kept(published: Path):
    page = published / "README.md"
    page.write_text(page.read_text().replace("# The protocol", "# The protocol, in my words"))
    contract.write(published)
    assert page.read_text().startswith("# The protocol, in my words\n")


def test_a_page_without_a_marker_is_refused():
    text = (PROTOCOL / "README.md").read_text().replace("<!-- generated: events -->", "")
    with pytest.raises(ValueError, match="events"):
        readme_tables.fill(text, catalogue.read())


def test_outside_of_a_checkout_the_error_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["--check", str(tmp_path)]) == 2
    assert "pass the folder" in capsys.readouterr().err


def test_every_generated_file_has_every_method():
    openrpc = json.loads((PROTOCOL / "openrpc.json").read_text())
    assert [method["name"] for method in openrpc["methods"]] == [
        method.wire_name for method in method_table.METHODS.values()
    ]
    page, types = (PROTOCOL / "README.md").read_text(), (PROTOCOL / "protocol.gen.ts").read_text()
    for method in method_table.METHODS.values():
        assert f"#### `{method.wire_name}`\n\n{method.summary}" in page
        assert f'"{method.wire_name}": {{ params: ' in types


def test_everything_declared_has_a_docstring():
    found = catalogue.read()
    without = [
        item.name
        for group in (found.structures, found.events, found.enumerations)
        for item in group.values()
        if not item.doc
    ]
    without += [
        f"{item.name}.{member.value}"
        for item in found.enumerations.values()
        for member in item.members
        if not member.doc
    ]
    assert without == []


def test_every_error_kind_and_state_is_on_the_page():
    page = (PROTOCOL / "README.md").read_text()
    for kind in ErrorKind:
        assert f"| `{kind}` | " in page
    for state in State:
        following = ", ".join(f"`{after}`" for after in State if after in TRANSITIONS[state])
        assert re.search(rf"\| `{state}` \| .+ \| {re.escape(following)} \|", page)


def test_every_link_of_the_page_leads_somewhere():
    page = (PROTOCOL / "README.md").read_text()
    places = {
        re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= places
    for file in re.findall(r"\]\((?!https:)([^#)]+)(?:#[^)]*)?\)", page):
        assert (PROTOCOL / file).exists(), file


def test_schemas_are_schemas_and_their_references_resolve():
    files = sorted((PROTOCOL / "schema").glob("*.json"))
    names = {file.name for file in files}
    for file in files:
        schema = json.loads(file.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        assert set(re.findall(r'"\$ref": "([^"]+)"', file.read_text())) <= names
    openrpc = json.loads((PROTOCOL / "openrpc.json").read_text())
    for reference in re.findall(r'"\$ref": "#/components/(\w+)/(\w+)"', json.dumps(openrpc)):
        assert reference[1] in openrpc["components"][reference[0]]


def test_openrpc_has_the_shape_of_openrpc():
    """Check the parts of the OpenRPC 1.3 meta-schema in which tools do not tolerate mistakes."""
    document = json.loads((PROTOCOL / "openrpc.json").read_text())
    assert re.fullmatch(r"1\.3\.\d+", document["openrpc"])
    assert {"title", "version"} <= set(document["info"])
    assert len({method["name"] for method in document["methods"]}) == len(document["methods"])
    for method in document["methods"]:
        assert method["paramStructure"] == "by-name"
        for parameter in method["params"]:
            assert {"name", "schema"} <= set(parameter) <= {"name", "schema", "required", "description"}
        assert {"name", "schema"} <= set(method["result"])
        needed = [parameter["required"] for parameter in method["params"]]
        assert all(isinstance(value, bool) for value in needed)
    for error in document["components"]["errors"].values():
        assert isinstance(error["code"], int)
        assert error["message"]


def test_the_order_of_imports_does_not_matter():
    program = (
        "import understudy.model.delegation.events, understudy.model.delegation.spec, understudy.api.messages\n"
        "from pathlib import Path\n"
        "from understudy.api import contract\n"
        f"assert contract.stale(Path({str(PROTOCOL)!r})) == []"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        env={"PYTHONHASHSEED": "7"},
    )
    assert done.returncode == 0, done.stderr


def test_the_union_of_events_is_complete():
    found = catalogue.read()
    tags = [event.tag for event in found.events.values()]
    assert len(tags) == len(set(tags)) == len(typing.get_args(catalogue.AnyEvent))
    listed = json.loads((PROTOCOL / "schema" / "Event.json").read_text())["anyOf"]
    assert [entry["$ref"] for entry in listed] == [f"{event.name}.json" for event in found.events.values()]


def test_typescript_is_balanced_and_names_only_what_it_declares():
    """Check what works without Node; the compiler of the extension checks more."""
    text = (PROTOCOL / "protocol.gen.ts").read_text()
    assert text.count("{") == text.count("}")
    code = re.sub(r'/\*\*.*?\*/|//.*|"[^"]*"', "", text, flags=re.DOTALL)
    declared = set(re.findall(r"export (?:interface|type) (\w+)", code))
    used = set(re.findall(r"\b[A-Z]\w*[a-z]\w*\b", code)) - {"Record"}
    assert used <= declared


def test_a_schema_accepts_what_the_decoder_accepts():
    """Check for one field of each type that the schema and msgspec accept the same values."""
    found = method_table.method("delegations/list")
    document = json.loads((PROTOCOL / "openrpc.json").read_text())
    schema = {**document["components"]["schemas"]["ListParams"], "components": document["components"]}
    cases: list[dict[str, object]] = [
        {}, {"limit": 5}, {"limit": None}, {"limit": "5"}, {"limit": 5.5}, {"states": ["finished"]}, {"states": ["done"]},
        {"states": "finished"}, {"cursor": "x", "text": "y"}, {"unknown": 1},
    ]  # fmt: skip
    for case in cases:
        try:
            msgspec.convert(case, found.params)
            decodes = True
        except msgspec.ValidationError:
            decodes = False
        assert jsonschema.Draft202012Validator(schema).is_valid(case) == decodes, case
