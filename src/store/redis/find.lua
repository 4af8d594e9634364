-- Reads what was recorded for a call key, whether its run or session is over, and what grant is there.
--
-- KEYS  1 `due`, which only says where the partition is
--       2.. the closings, then the call key, if there is one, then what a grant would be found by, if one is looked
--       for
-- ARGV  1 clock offset, ms   2 how many closings   3 whether there is a call key (1 or 0)
-- Also touches the record that the call key names, and the grant that is found.
--
-- Returns {now, closed (1 or 0), {id, format, leave, created, expires} or {}}, and if something is recorded: id,
-- format, body, state, version, created, deadline, open.

local base = string.sub(KEYS[1], 1, -4)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
local closings = tonumber(ARGV[2])

local closed = 0
for closing = 2, 1 + closings do
  local till = redis.call('GET', KEYS[closing])
  if till and not (tonumber(till) and tonumber(till) <= now) then closed = 1 end
end

local grant = KEYS[2 + closings + tonumber(ARGV[3])]
local granted = grant and redis.call('GET', grant)
local live = {}
if granted then
  local found = redis.pcall('HMGET', base .. 'g:' .. granted, 'format', 'leave', 'created', 'expires')
  local expires = tonumber(found[4] or '')
  if expires and expires > now then live = {granted, unpack(found, 1, 4)} end
end

local key = ARGV[3] == '1' and KEYS[2 + closings]
local id = key and redis.call('GET', key)
if not id then return {now, closed, live} end
return {now, closed, live, id, unpack(redis.call('HMGET', base .. 'r:' .. id,
  'format', 'body', 'state', 'version', 'created', 'deadline', 'open'), 1, 7)}
