-- Looks at what is due in one partition: collects what may go, and names what time may have changed.
--
-- KEYS  1 `due`
-- ARGV  1 clock offset, ms   2 how many to look at
-- Also touches the records that `due` names, and the indexes and the call keys that those name.
--
-- Returns {now, how many were looked at, {id, wake, id, wake, ...}}. Deletes only, so that it works when
-- Redis is out of memory. Nothing that one garbled record holds may stop it: hence the `pcall`s.

local base = string.sub(KEYS[1], 1, -4)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]

local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local changed = {}
for i = 1, #found, 2 do
  local id = found[i]
  local record = base .. 'r:' .. id
  local held = redis.pcall('HMGET', record, 'then', 'indexes', 'key')
  if held[1] == 'collect' then
    for index in string.gmatch(held[2] or '', '%x+') do
      redis.pcall('ZREM', base .. 'o:' .. index, id)
      redis.pcall('ZREM', base .. 'c:' .. index, id)
    end
    local key = base .. 'k:' .. (held[3] or '')
    if redis.pcall('GET', key) == id then redis.call('DEL', key) end
    redis.call('DEL', record)
    redis.call('ZREM', KEYS[1], id)
  elseif redis.call('EXISTS', record) == 0 then
    redis.call('ZREM', KEYS[1], id)
  else
    changed[#changed + 1] = id
    changed[#changed + 1] = found[i + 1]
  end
end
return {now, #found / 2, changed}
