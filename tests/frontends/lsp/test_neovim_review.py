"""Test the review in a real Neovim with its own LSP client, in the oldest version that is still in use (Debian 12)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numbered_lines import LINES

from understudy.journal import delegation_folder

SCRIPT = r"""
local given = vim.fn.json_decode(table.concat(vim.fn.readfile(os.getenv('GIVEN')), '\n'))
local said, log = {}, {}
vim.notify = function(text) table.insert(said, text) end
local function until_(what, condition)
  if not vim.wait(30000, condition, 20) then error('no ' .. what .. ': ' .. vim.inspect(said)) end
end
local function run()
  local id = vim.lsp.start_client({ name = 'understudy', cmd = { given.python, '-m', 'understudy', 'serve' },
    root_dir = given.top, workspace_folders = { { uri = vim.uri_from_fname(given.top), name = 'project' } },
    handlers = { ['window/showMessage'] = function(_, message) table.insert(said, message.message) end } })
  local client = vim.lsp.get_client_by_id(id)
  until_('server', function() return client.initialized end)
  local function open(path)
    vim.cmd('edit ' .. vim.fn.fnameescape(path))
    vim.lsp.buf_attach_client(0, id)
    return vim.api.nvim_get_current_buf()
  end
  local function hunks() return vim.diagnostic.get(0, { severity = { min = vim.diagnostic.severity.INFO } }) end
  local function lines() return vim.api.nvim_buf_get_lines(0, 0, -1, false) end
  local function act(beginning)
    local params = vim.lsp.util.make_range_params()
    params.context = { diagnostics = vim.lsp.diagnostic.get_line_diagnostics() }
    local buffer = vim.api.nvim_get_current_buf() -- with 0, 0.7 does not send what was typed first
    local command
    -- A request that another change overtakes is refused, and a user asks again.
    until_(beginning .. ' at ' .. vim.fn.line('.') .. ': ' .. vim.inspect(lines()), function()
      local found = client.request_sync('textDocument/codeAction', params, 10000, buffer) or {}
      for _, one in ipairs(found.result or {}) do
        if vim.startswith(one.title, beginning) then
          command = type(one.command) == 'table' and one.command or one
        end
      end
      return command
    end)
    return client.request_sync('workspace/executeCommand', command, 20000, buffer)
  end

  -- A file that is edited and not saved: its hunks are where the lines are now.
  local text = open(given.top .. '/text.txt')
  until_('three hunks in the file', function() return #hunks() == 3 end)
  vim.api.nvim_buf_set_lines(0, 0, 0, false, { 'mine' })
  until_('moved hunks', function() return #hunks() == 3 and hunks()[1].lnum == 5 end)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  vim.diagnostic.goto_next({ float = false, severity = { min = vim.diagnostic.severity.INFO } })
  log.first = vim.fn.getline('.')
  act('Accept this hunk')
  until_('two hunks left', function() return #hunks() == 2 end)
  log.accepted = lines()
  log.modified = vim.bo.modified

  -- The review: the next diagnostic is the next hunk; a reason is typed, and taken up unsaved.
  local review = open(given.review)
  until_('the review', function() return #hunks() == 3 end)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  vim.diagnostic.goto_next({ float = false, severity = { min = vim.diagnostic.severity.INFO } })
  log.next = vim.fn.getline('.')
  act('Accept this hunk')
  until_('two hunks left in the review', function() return #hunks() == 2 end)
  vim.api.nvim_win_set_cursor(0, { 1, 0 })
  vim.diagnostic.goto_next({ float = false, severity = { min = vim.diagnostic.severity.INFO } })
  vim.cmd('normal! jo> roman, please')
  act('Reject this hunk because: roman, please')
  until_('one hunk left', function() return #hunks() == 1 end)
  log.hint = vim.tbl_map(function(one) return one.message end, vim.diagnostic.get(0))

  -- The reply contains the user's comments; then the last accept is undone.
  vim.cmd('normal! gg')
  act('Undo the last accept')
  until_('a pending hunk again', function() return #hunks() == 2 end)
  vim.cmd('normal! ggo> Be brief.')
  act('Send back to writer with your comments: Be brief.')
  until_('word that it went back', function() return #said > 0 end)
  log.said = said
  vim.lsp.stop_client(id)
end
local ok, problem = xpcall(run, debug.traceback)
log.problem = not ok and problem or nil
vim.fn.writefile({ vim.fn.json_encode(log) }, os.getenv('OUTCOME'))
vim.cmd('qa!')
"""


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_a_user_of_neovim_accepts_rejects_undoes_and_replies(workshop: Any, tmp_path: Path) -> None:
    workshop.write("text.txt", LINES)
    workshop.git("add", "-A")
    workshop.git("commit", "-qm", "more")
    result = LINES.replace("line 5\n", "five\n").replace("line 20\n", "twenty\n").replace("line 35\n", "XXXV\n")
    workshop.agent(
        "writer", {"write": "text.txt", "text": result}, {"write": "new.txt", "text": "new\n"}, {"result": True}
    )
    identifier = workshop.start("implement", "text.txt", task="Number them.", delegator="writer")
    assert workshop.call("delegations/wait", id=identifier, timeoutSeconds=60).review.pending == 4
    script, outcome, given = tmp_path / "script.lua", tmp_path / "outcome.json", tmp_path / "given.json"
    script.write_text(SCRIPT)
    review = delegation_folder.open_folder(identifier).review
    given.write_text(json.dumps({"python": sys.executable, "top": str(workshop.top), "review": str(review)}))
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {script}"],
        env={**os.environ, "GIVEN": str(given), "OUTCOME": str(outcome)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.exists(), done.stderr
    log = json.loads(outcome.read_text())
    assert "problem" not in log, log["problem"]
    assert log["first"] == "line 5"
    assert "\n".join(log["accepted"]) + "\n" == "mine\n" + LINES.replace("line 5\n", "five\n")
    assert log["modified"] is True, "the user saves the documents that are open in the editor"
    assert (workshop.top / "text.txt").read_text() == LINES
    assert log["next"] == "+new"
    assert any(message.startswith("Rejected (roman, please): text.txt") for message in log["hint"])
    child = next(d for d in workshop.call("delegations/list").delegations if d.parent_id == identifier)
    assert log["said"] == [f"Sent back as {child.id}."]
    workshop.call("delegations/wait", id=child.id, timeoutSeconds=60)
    prompt = (delegation_folder.open_folder(child.id).path / "prompt.md").read_text()
    assert prompt.partition("# What is asked for now")[2].strip().startswith("Be brief.")
    assert "Why: roman, please" in prompt
    assert not (workshop.top / "new.txt").exists()
