-- neovim.lua - a real Neovim with the block of docs/editors.md: types, and says what it sees.
--   nvim -u NONE -i NONE -c 'luafile tests/lsp/neovim.lua'   CERIUM_LUA: the block, CERIUM_OUT
local out = io.open(vim.env.CERIUM_OUT, 'w')
local function say(...)
  out:write(table.concat({ ... }, '\t'), '\n')
  out:flush()
end

dofile(vim.env.CERIUM_LUA)
local name = 'cerium-copilot'
vim.cmd.edit(vim.env.CERIUM_FILE)
vim.bo.filetype = 'python'

local function client()
  return vim.lsp.get_clients({ name = name })[1]
end

local function ghost()
  local ns = vim.api.nvim_create_namespace('nvim.lsp.inline_completion')
  local text = {}
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, ns, 0, -1, { details = true })) do
    for _, part in ipairs(mark[4].virt_text or {}) do text[#text + 1] = part[1] end
    for _, line in ipairs(mark[4].virt_lines or {}) do
      for _, part in ipairs(line) do text[#text + 1] = '\n' .. part[1] end
    end
  end
  return table.concat(text)
end

local function keys(text)
  vim.api.nvim_feedkeys(vim.api.nvim_replace_termcodes(text, true, false, true), 't', false)
end

local function lines() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\n') end

-- Each step waits until it may go on; timers let the editor work between them.
local steps, at, waited = {}, 1, 0
local function step(ready, act) steps[#steps + 1] = { ready, act } end

step(function()
  return client() and client().initialized
end, function()
  say('encoding', client().offset_encoding)
  say('inline', tostring(client():supports_method('textDocument/inlineCompletion')))
  vim.g.first = lines()
  keys('Go')
end)
local ready = false
step(function()
  client():request('cerium/status', {}, function(_, status)
    ready = status and not status.busy
  end)
  return ready
end, function() keys('    def __sub__(self, oth') end)
step(function() return ghost() ~= '' end, function() say('ghost', vim.inspect(ghost())) end)
-- The others may come with a later answer: the caret moves, so that the editor asks again.
local ticks, second = 0, ''
local function place() return ghost():match(' %((%d)/(%d)%)$') end
step(function()
  vim.lsp.inline_completion.select({ count = 1 })
  local which, n = place()
  if n and tonumber(n) > 1 and which == '2' then return true end
  ticks = ticks + 1
  if ticks % 20 == 0 then keys('<C-g>U<Left><C-g>U<Right>') end
end, function()
  second = ghost()
  say('several', second)
  keys('<M-[>')
end)
step(function() return place() == '1' end, function()
  say('previous', tostring(ghost() ~= second))
  keys('<M-]>')
end)
step(function() return place() == '2' end, function()
  say('next', tostring(ghost() == second))
  vim.g.before, vim.g.ghost = lines(), (ghost():gsub(' %(%d/%d%)$', ''))
  keys('<Tab>')
end)
step(function() return lines() ~= vim.g.before end, function()
  say('accepted', tostring(lines() == vim.g.before .. vim.g.ghost))
  keys('<Esc>u')
end)
step(function() return lines() ~= vim.g.before .. vim.g.ghost end, function()
  say('undone', tostring(lines() == vim.g.first), vim.inspect(lines():sub(-80)))
  vim.diagnostic.config({ virtual_text = false })
  keys('Goh = hashlib.md5(self.x)<Esc>gg')
end)
step(function() return #vim.diagnostic.get(0) > 0 end, function()
  local d = vim.diagnostic.get(0)[1]
  say('diagnostic', d.source, tostring(d.lnum == vim.api.nvim_buf_line_count(0) - 1))
  say('end')
  vim.cmd('qall!')
end)

local timer = vim.uv.new_timer()
timer:start(50, 50, vim.schedule_wrap(function()
  waited = waited + 1
  if waited > 1200 then
    say('stuck', tostring(at), vim.inspect(lines():sub(-120)), ghost())
    vim.cmd('cquit')
  end
  if steps[at] and steps[at][1]() then
    local act = steps[at][2]
    at, waited = at + 1, 0
    act()
  end
end))
