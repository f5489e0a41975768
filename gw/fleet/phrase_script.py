"""The phrases of a fleet in Lua, run by Valkey as one atomic step each.

All keys have the hash tag of the fleet, so a cluster keeps them on one node. None of them holds text or audio in clear: ids of project,
model and voice, and sizes, are what `clear` and the limit need. All go when no gateway has used a phrase for as long as one is kept.

    key                       type   content
    ────────────────────────  ────   ─────────────────────────────────────────────────────────────────────────────────
    gw:{NAME}:phrases:1:state  hash   generation; key (sealed); bytes; number (of the latest change); clears (how many)
    gw:{NAME}:phrases:1:about  hash   hashed key → takes, size, project, model, voice, marks of its beginnings
    gw:{NAME}:phrases:1:bodies  hash   hashed key → sealed text and audio
    gw:{NAME}:phrases:1:used  zset   hashed key → milliseconds at which it was used last
    gw:{NAME}:phrases:1:news  zset   hashed key → number of the change that brought it
    gw:{NAME}:phrases:1:clears  zset   number of a clear, and which phrases it was for → that number
"""

NAMES = ("state", "about", "bodies", "used", "news", "clears")

_SHARED = """
local state, about, bodies, used, news, clears = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local function whole(x) return string.format('%.0f', x) end
local function get(field) return tonumber(redis.call('HGET', state, field) or '0') end
local function now_ms()
    local time = redis.call('TIME')
    return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end
local function drop(hashed)
    local entry = redis.call('HGET', about, hashed)
    if not entry then return 0 end
    redis.call('HINCRBY', state, 'bytes', -cmsgpack.unpack(entry)[2])
    redis.call('HDEL', about, hashed)
    redis.call('HDEL', bodies, hashed)
    redis.call('ZREM', used, hashed)
    redis.call('ZREM', news, hashed)
    return 1
end
local function evict(limit, keep_ms, most)
    local dropped, oldest = 0, now_ms() - keep_ms
    while dropped < most do
        local first = redis.call('ZRANGE', used, 0, 0, 'WITHSCORES')
        if not first[1] or (get('bytes') <= limit and tonumber(first[2]) >= oldest) then break end
        drop(first[1])
        dropped = dropped + 1
    end
    for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, keep_ms) end
    return dropped
end
"""

FOLLOW = (
    _SHARED
    + """
local generation, after, after_clear, count = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local current = redis.call('HGET', state, 'generation')
if not current then
    if ARGV[5] == '' then return {''} end
    current = ARGV[5]
    redis.call('HSET', state, 'generation', current, 'key', ARGV[6])
end
if current ~= generation then after, after_clear = 0, -1 end
local added, last = {}, after
local rows = redis.call('ZRANGEBYSCORE', news, '(' .. whole(after), '+inf', 'WITHSCORES', 'LIMIT', 0, count)
for i = 1, #rows, 2 do
    local entry = redis.call('HGET', about, rows[i])
    if entry then added[#added + 1] = {rows[i], cmsgpack.unpack(entry)[6]} end
    last = tonumber(rows[i + 1])
end
local cleared = {}
if after_clear >= 0 then cleared = redis.call('ZRANGEBYSCORE', clears, '(' .. whole(after_clear), '+inf') end
local sealed = current ~= generation and redis.call('HGET', state, 'key') or ''
return {current, sealed, whole(last), whole(get('clears')), redis.call('HLEN', about), whole(get('bytes')), #rows / 2, added, cleared}
"""
)
"""ARGV: generation, number and clears that are known, most changes to return; a generation and its sealed key to begin with, or "" twice.

Returns "" alone if the server has no generation and was given none to begin with. Otherwise generation, its sealed key ("" if it is
known), number, clears, phrases, bytes, changes, [hashed key, marks] of each that is still there, clears that are not known.
"""

PUT = (
    _SHARED
    + """
local hashed, takes, size = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
if redis.call('HGET', state, 'generation') ~= ARGV[1] or get('clears') ~= tonumber(ARGV[2]) then return {0, 0} end
local entry = redis.call('HGET', about, hashed)
if entry and cmsgpack.unpack(entry)[1] > takes then return {1, 0} end
drop(hashed)
redis.call('HSET', about, hashed, cmsgpack.pack({takes, size, ARGV[6], ARGV[7], ARGV[8], ARGV[9]}))
redis.call('HSET', bodies, hashed, ARGV[10])
redis.call('ZADD', used, whole(now_ms()), hashed)
redis.call('ZADD', news, redis.call('HINCRBY', state, 'number', 1), hashed)
redis.call('HINCRBY', state, 'bytes', size)
return {1, evict(tonumber(ARGV[11]), tonumber(ARGV[12]), 100)}
"""
)
"""ARGV: generation and clears that are known, hashed key, takes, size, project, model, voice, marks, body, limit in bytes, milliseconds for
which a phrase is kept. Returns 1 if it, or one with more takes, is stored; 0 if something was cleared meanwhile; and how many left.
"""

TOUCH = (
    _SHARED
    + """
local now = whole(now_ms())
for i = 3, #ARGV do redis.call('ZADD', used, 'XX', now, ARGV[i]) end
return evict(tonumber(ARGV[1]), tonumber(ARGV[2]), 100)
"""
)
"""ARGV: limit in bytes, milliseconds for which a phrase is kept, hashed keys. Returns how many phrases left."""

BEGIN_CLEAR = (
    _SHARED
    + """
local number = redis.call('HINCRBY', state, 'clears', 1)
redis.call('ZADD', clears, number, whole(number) .. ' ' .. ARGV[1])
redis.call('ZREMRANGEBYRANK', clears, 0, -1 - tonumber(ARGV[2]))
if ARGV[3] ~= '1' then return {number, 0} end
local count = redis.call('HLEN', about)
redis.call('UNLINK', about, bodies, used, news)
redis.call('HSET', state, 'bytes', 0)
return {number, count}
"""
)
"""ARGV: which phrases, as the gateways read it; most clears to keep; "1" for all phrases, which go at once. Returns the number of the
clear, and how many phrases went."""

CLEAR_STEP = (
    _SHARED
    + """
local page, dropped = redis.call('HSCAN', about, ARGV[1], 'COUNT', 200), 0
for i = 1, #page[2], 2 do
    local entry, matches = cmsgpack.unpack(page[2][i + 1]), true
    for n = 1, 3 do
        if ARGV[2 * n] == '1' and ARGV[2 * n + 1] ~= entry[n + 2] then matches = false end
    end
    if matches then dropped = dropped + drop(page[2][i]) end
end
return {page[1], dropped}
"""
)
"""ARGV: cursor; then for project, model and voice "1" and its value, or "" twice. Returns the next cursor ("0" = the end), and how many
phrases went."""

REPLACE_KEY = (
    _SHARED
    + """
if redis.call('HGET', state, 'generation') ~= ARGV[1] or redis.call('HGET', state, 'key') ~= ARGV[2] then return 0 end
redis.call('HSET', state, 'key', ARGV[3])
return 1
"""
)
"""ARGV: generation, its sealed key, the same key sealed with another secret. Returns whether it was put in place."""
