-- Writes new states of some records of one partition, all or none, and maybe ends their run or session, or gives a
-- grant.
--
-- KEYS  1            `due`
--       2..          the records (ARGV[6] of them)
--       then         the closings that would refuse it (ARGV[10] of them)
--       then         with a closing: the group's open index, the closing, and the group's live grants
--       then         with a grant: what finds it, and the live grants of its tenant and of its session
-- ARGV  1 clock offset, ms     2 operation id             3 not after this moment, or ''
--       4 channel              5 ms that keys outlive what they hold
--       6 how many records     7 how many open ones the group must have, or '' for whatever it has
--       8 retention of the closing, ms, or '' without one  9 the run that they must be of, or '' for all
--      10 how many closings would refuse it              11 whether the group's grants end with it (1 or 0)
--      12 id of the grant that is given, or '' without one; with one, before the records: format; leave; created;
--         expires; keep until; the groups it is in, with a space between; the name of what finds it
--       then six for each record: the version it must have; state; open (1 or 0); wake, or '';
--       what to do then (`settle` or `collect`); keep until, or ''
-- Also touches the indexes and the call key that each record names, the records in the open index, and the grants
-- that end, with what finds them and the indexes that they name.
--
-- Returns 'done', 'stale', 'closed', or the error CORRUPT. Everything is read before anything is written, and the
-- first write is one that Redis refuses when it is out of memory, so that nothing is written by half.

local base = string.sub(KEYS[1], 1, -4)
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1]
local count = tonumber(ARGV[6])
local group = 2 + count + tonumber(ARGV[10])
local given = group
if ARGV[8] ~= '' then given = given + 3 end
local each = ARGV[12] == '' and 13 or 20

-- How many of an index are of this run: those of another session that has a run of the same name are not. One
-- that cannot be read is, as in members.lua.
local function members(index, run)
  if run == '' then return redis.call('ZCARD', index) end
  local sum = 0
  for _, id in ipairs(redis.call('ZRANGE', index, 0, -1)) do
    local of = redis.pcall('HGET', base .. 'r:' .. id, 'run')
    if type(of) ~= 'string' or of == run then sum = sum + 1 end
  end
  return sum
end

-- Ends a grant; nothing that a garbled one holds may stop what else is written.
local function finish(id)
  local held = redis.pcall('HMGET', base .. 'g:' .. id, 'expires', 'key', 'indexes')
  if tonumber(held[1] or '') and tonumber(held[1]) > now then
    redis.pcall('HSET', base .. 'g:' .. id, 'expires', now)
  end
  local finds = base .. 'a:' .. (held[2] or '')
  if redis.pcall('GET', finds) == id then redis.call('DEL', finds) end
  for index in string.gmatch(held[3] or '', '%x+') do
    redis.pcall('ZREM', base .. 'l:' .. index, id)
  end
end

local records, stale, corrupt = {}, false, nil
for i = 1, count do
  local held = redis.call('HMGET', KEYS[1 + i],
    'version', 'operation', 'open', 'deadline', 'indexes', 'key')
  -- One record that this operation wrote means that it wrote them all.
  if held[2] == ARGV[2] then return 'done' end
  if held[1] ~= ARGV[each + 6 * (i - 1)] then
    stale = true
  elseif not (tonumber(held[4]) and held[5]) then
    corrupt = string.sub(KEYS[1 + i], -36)
  end
  records[i] = held
end
if stale then return 'stale' end
if corrupt then return redis.error_reply('CORRUPT ' .. corrupt) end
if ARGV[3] ~= '' and now >= tonumber(ARGV[3]) then return 'stale' end
if ARGV[7] ~= '' and members(KEYS[group], ARGV[9]) ~= tonumber(ARGV[7]) then return 'stale' end
for closing = 2 + count, group - 1 do
  local till = redis.call('GET', KEYS[closing])
  if till and not (tonumber(till) and tonumber(till) <= now) then return 'closed' end
end

local over
if ARGV[8] ~= '' then
  -- An end that is written again is remembered no shorter than before.
  local before = redis.pcall('GET', KEYS[group + 1])
  over = now + ARGV[8]
  if type(before) == 'string' then over = math.max(over, tonumber(before) or 0) end
end

local changed = {}
for i = 1, count do
  local record, held = KEYS[1 + i], records[i]
  local version, state, open, wake, task, keep = unpack(ARGV, each + 6 * (i - 1), each + 6 * i - 1)
  local id = string.sub(record, -36)
  changed[i] = id
  redis.call('HSET', record, 'state', state, 'version', version + 1, 'operation', ARGV[2],
    'open', open, 'then', task)

  if open ~= held[3] then
    local from, to = 'o:', 'c:'
    if open == '1' then from, to = to, from end
    for index in string.gmatch(held[5], '%x+') do
      redis.call('ZREM', base .. from .. index, id)
      redis.call('ZADD', base .. to .. index, held[4], id)
    end
  end

  if wake == '' then
    redis.call('ZREM', KEYS[1], id)
  else
    redis.call('ZADD', KEYS[1], wake, id)
  end

  local kept = {record}
  if held[6] and held[6] ~= '' then kept[2] = base .. 'k:' .. held[6] end
  for _, key in ipairs(kept) do
    if keep == '' then
      redis.call('PERSIST', key)
    else
      redis.call('PEXPIRE', key, math.max(keep - now, 0) + ARGV[5])
    end
  end
end

if over then
  redis.call('SET', KEYS[group + 1], over, 'PX', over - now + ARGV[5])
  if ARGV[11] == '1' then
    for _, id in ipairs(redis.call('ZRANGE', KEYS[group + 2], 0, -1)) do finish(id) end
    redis.call('DEL', KEYS[group + 2])
  end
end

if ARGV[12] ~= '' then
  local id, format, leave, created, expires, keep, indexes, key = unpack(ARGV, 12, 19)
  local before = redis.call('GET', KEYS[given])
  if before and before ~= id then finish(before) end
  local record = base .. 'g:' .. id
  redis.call('HSET', record, 'format', format, 'leave', leave, 'created', created, 'expires', expires,
    'key', key, 'indexes', indexes)
  redis.call('PEXPIRE', record, math.max(keep - now, 0) + ARGV[5])
  redis.call('SET', KEYS[given], id, 'PX', math.max(expires - now, 0) + ARGV[5])
  for index = given + 1, given + 2 do
    redis.call('ZREMRANGEBYSCORE', KEYS[index], '-inf', now)
    redis.call('ZADD', KEYS[index], expires, id)
    local last = redis.call('ZRANGE', KEYS[index], -1, -1, 'WITHSCORES')[2]
    redis.call('PEXPIRE', KEYS[index], math.max(last - now, 0) + ARGV[5])
  end
end
if count > 0 then redis.call('PUBLISH', ARGV[4], table.concat(changed, ' ')) end
return 'done'
