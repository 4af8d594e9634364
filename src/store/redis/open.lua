-- Opens a suspension in one step: unless its call was asked before, its run is over, a grant is there or too many
-- wait.
--
-- KEYS  1            `due`
--       2..          the open indexes that will hold it (ARGV[8] of them)
--       then         the closings that would refuse it (ARGV[9] of them)
--       then         its call key, if it has one
--       then         what a grant would be found by, if one is looked for
-- ARGV  1 clock offset, ms     2 id                       3 record format
--       4 body                 5 state                    6 expires, ms
--       7 ms until the keys go on their own               8 how many open indexes
--       9 how many closings   10 which of KEYS is the limited index, 0 for none
--      11 limit               12 names of its indexes, with a space between
--      13 name of its call key, or ''                    14 channel
--      15 name of its run in its own session, or ''      16 what happens when nobody answers
--      17 whether it has a call key (1 or 0)
-- Also touches the record itself, the record that the call key names, and the grant that is found.
--
-- Returns {'existing', now, id, format, body, state, version, created, deadline, open}, where the id is
-- ARGV[2] when this very write came before; {'closed'}; {'granted', id, format, leave, created, expires}; {'full'}; or {'created', now, deadline}.

local base = string.sub(KEYS[1], 1, -4)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
local closings = 1 + tonumber(ARGV[8])
local after = closings + tonumber(ARGV[9]) + 1
local key = ARGV[17] == '1' and KEYS[after]
local grant = KEYS[after + tonumber(ARGV[17])]

local id = key and redis.call('GET', key) or ARGV[2]
local held = redis.call('HMGET', base .. 'r:' .. id,
  'format', 'body', 'state', 'version', 'created', 'deadline', 'open')
for field = 1, 7 do
  if held[field] then return {'existing', now, id, unpack(held, 1, 7)} end
end

for closing = closings + 1, closings + tonumber(ARGV[9]) do
  local till = redis.call('GET', KEYS[closing])
  -- What is no number is no reason to open.
  if till and not (tonumber(till) and tonumber(till) <= now) then return {'closed'} end
end

local granted = grant and redis.call('GET', grant)
if granted then
  -- What cannot be read lets nothing through.
  local found = redis.pcall('HMGET', base .. 'g:' .. granted, 'format', 'leave', 'created', 'expires')
  local expires = tonumber(found[4] or '')
  if expires and expires > now then return {'granted', granted, unpack(found, 1, 4)} end
end

local limited = KEYS[tonumber(ARGV[10])]
while limited and redis.call('ZCARD', limited) >= tonumber(ARGV[11]) do
  -- A member whose record went without the sweeper (evicted, or after a long outage) does not count.
  local first = redis.call('ZRANGE', limited, 0, 0)[1]
  if not first or redis.call('EXISTS', base .. 'r:' .. first) == 1 then return {'full'} end
  redis.call('ZREM', limited, first)
end

id = ARGV[2]
local record, deadline = base .. 'r:' .. id, now + ARGV[6]
redis.call('HSET', record, 'format', ARGV[3], 'body', ARGV[4], 'state', ARGV[5], 'version', 1,
  'created', now, 'deadline', deadline, 'operation', '', 'open', 1, 'then', 'settle',
  'indexes', ARGV[12], 'key', ARGV[13], 'run', ARGV[15], 'on_expiry', ARGV[16])
redis.call('PEXPIRE', record, ARGV[7])
if key then redis.call('SET', key, id, 'PX', ARGV[7]) end
redis.call('ZADD', KEYS[1], deadline, id)
for index = 2, closings do
  redis.call('ZADD', KEYS[index], deadline, id)
end
redis.call('PUBLISH', ARGV[14], id)
return {'created', now, deadline}
