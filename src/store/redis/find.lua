-- Reads what was recorded for a call key, and whether its run or session is over.
--
-- KEYS  1 `due`, which only says where the partition is
--       2.. the closings, then the call key, if there is one
-- ARGV  1 clock offset, ms   2 how many closings
-- Also touches the record that the call key names.
--
-- Returns {now, closed (1 or 0)}, and if something is recorded: id, format, body, state, version, created,
-- deadline, open.

local base = string.sub(KEYS[1], 1, -4)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
local closings = tonumber(ARGV[2])

local closed = 0
for closing = 2, 1 + closings do
  local till = redis.call('GET', KEYS[closing])
  if till and not (tonumber(till) and tonumber(till) <= now) then closed = 1 end
end

local key = KEYS[2 + closings]
local id = key and redis.call('GET', key)
if not id then return {now, closed} end
return {now, closed, id, unpack(redis.call('HMGET', base .. 'r:' .. id,
  'format', 'body', 'state', 'version', 'created', 'deadline', 'open'), 1, 7)}
