-- The load of a load test, for sysbench 1.0.20 (LuaJIT): all profiles.
--
-- Each statement is timed, not each event: sysbench times an event, without the wait in its queue for a wanted rate, and
-- gives one whole-numbered percentile. Every thread has a Lua state of its own, so counts are in memory that all states
-- share: each thread writes its own block, the reporting thread and done() read them all.
--
-- Lines of the report begin with "dbops ". Latency in ms, times in seconds since 1970.
--   dbops measuring TIME CPU               the warm-up is over; CPU seconds of this process so far
--   dbops second N QUERIES ERRORS P95      one second of the measured part; P95 "-" without a statement
--   dbops end TIME CPU                     end of the load, then
--   dbops total QUERIES ERRORS UNSERVED VISITED EVENTS
--   dbops latency MIN MAX SUM
--   dbops bucket UPPER COUNT               each that is not empty
--   dbops error NUMBER COUNT               0: other numbers
--   dbops ended NUMBER TEXT                an error ended the load
--   dbops message NUMBER TEXT              the last error that was only counted

local ffi = require("ffi")
local math_log, math_floor, random = math.log, math.floor, sysbench.rand.uniform_double

ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } dbops_time;
int clock_gettime(int, dbops_time *);
int nanosleep(const dbops_time *, dbops_time *);
void *calloc(size_t, size_t);
int setenv(const char *, const char *, int);
int pthread_setcancelstate(int, int *);
int pthread_mutex_lock(void *);
int pthread_mutex_unlock(void *);
long long strtoll(const char *, char **, int);
unsigned long long strtoull(const char *, char **, int);
typedef struct {
  double epoch, queries, errors, events, sum, least, most;
  double numbers[32], counts[32];
  double buckets[1024];
  int last_number;
  char last_text[256];
} dbops_block;
typedef struct {
  char lock[64];
  double epoch, started, measuring, due, turns, first_turn, ended, spread;
  size_t statements;
  char **texts;
  size_t *lengths;
  char *fresh;
  int *order;
  dbops_block *blocks;
} dbops_shared;
]]

sysbench.cmdline.options = {
   profile = {"Kind of load: read-only, write-only, read-write, point-select, rotating-schemas, insert", "point-select"},
   tables = {"Tables of the first four profiles", 4},
   table_rows = {"Rows of each", 100000},
   warm_up = {"Seconds of load before it is measured", 0},
   wanted_rate = {"Events a second; 0: as many as possible", 0},
   schemas = {"Copies of the schema", 0},
   seconds_on_schema = {"Seconds of a thread on one copy", 5.0},
   input = {"-: statements, or the table of inserts, are on standard input", ""},
   load_seconds = {"Seconds of the whole load", 10}
}

local COPY = "dbops_copy_%04d"
local BUCKETS, LEAST_MS, RATIO = 1024, 0.001, math.exp(math.log(1e8) / 1024)
local LOG_RATIO = math_log(RATIO)
-- A thread of which this many statements fail in a row ends the load.
local FAILURES = 100
-- These errors end the load: connections that are refused or lost, a server that stops or is read-only, no schema, no space, no memory.
local ENDING = {}
for _, number in ipairs({
   3, 28, 1021, 1026, 1030, 1037, 1038, 1040, 1041, 1044, 1045, 1049, 1053, 1077, 1114, 1129, 1130, 1135, 1180, 1203, 1226, 1290, 1836,
   2000, 2002, 2003, 2006, 2008, 2011, 2012, 2013, 2014, 2026, 2027, 2055
}) do ENDING[number] = true end

local moment = ffi.new("dbops_time")
local function clock(kind)
   ffi.C.clock_gettime(kind, moment)
   return tonumber(moment.seconds) + tonumber(moment.nanoseconds) * 1e-9
end
local function now() return clock(1) end -- monotonic
local function wall() return clock(0) end
local function cpu() return clock(2) end -- of the process

local nap = ffi.new("dbops_time")
local function sleep(seconds)
   nap.seconds = math_floor(seconds)
   nap.nanoseconds = math_floor((seconds - math_floor(seconds)) * 1e9)
   ffi.C.nanosleep(nap, nil)
end

local function say(format, ...)
   io.write("dbops " .. string.format(format, ...) .. "\n") -- in one piece: threads write to the same file
   io.flush()
end
local function one_line(text) return (text:gsub("[%c]", " "):sub(1, 240)) end

-- In the worker and reporting states the address comes from the environment, which init() sets before they begin.
local shared
local function find_shared()
   shared = shared or ffi.cast("dbops_shared *", ffi.cast("uintptr_t", tonumber(os.getenv("DBOPS_LOAD_SHARED"))))
   return shared
end

local function quoted(name) return "`" .. name:gsub("`", "``") .. "`" end
local ESCAPES = {["\\"] = "\\", n = "\n", r = "\r", t = "\t", ["0"] = "\0"}
local function plain(text) return (text:gsub("\\(.)", ESCAPES)) end
local function is_rotating() return sysbench.opt.profile == "rotating-schemas" end

-- ---- before the threads: one state, without the limit of 30 s that sysbench has for threads to begin

local function copied(text)
   local memory = ffi.cast("char *", ffi.C.calloc(#text + 1, 1))
   ffi.copy(memory, text, #text)
   return memory
end

local function fields_of(line)
   local fields = {}
   for field in (line .. "\t"):gmatch("([^\t]*)\t") do fields[#fields + 1] = plain(field) end
   return fields
end

-- ---- statements of digests: each value from a row of its table, as the host sampled it; values that must be new are made when sent

local sampled, digests = {}, {}
local FRESH = "\1(%a)(%d+)\1"

local function read_row(fields)
   local rows = sampled[fields[2]] or {}
   sampled[fields[2]] = rows
   rows[#rows + 1] = fields
end

-- A sampled value as SQL: only plain characters are in quotes.
local function literal(value)
   local sign, text = value:sub(1, 1), value:sub(2)
   if sign == "n" and text:find("^[-+0-9.eE]+$") then return text end
   if (sign ~= "b" and sign ~= "t") or text:find("[^0-9A-F]") then return "NULL" end
   local plain_text = text:gsub("..", function(pair) return string.char(tonumber(pair, 16)) end)
   if not plain_text:find("[^ -~]") and not plain_text:find("['\\]") then return "'" .. plain_text .. "'" end
   return sign == "b" and "0x" .. text or "NULL"
end

-- The same in each round: a round differs from another by what is raised alone.
local function any_of(rows) return rows[math.random(#rows)] end

local function bound(code, chosen)
   if code:sub(1, 1) == "=" then return code:sub(2) end
   local use, table_, column, row, kind, most = code:match("^(%a+) (%d+) (%d+) (%d+) (%a) (%d+)$")
   if use == "fresh" then return "\1" .. kind .. most .. "\1" end
   local rows = sampled[table_]
   if not rows then return kind == "n" and "1" or kind == "b" and "'a'" or "NULL" end
   local place, key = tonumber(column) + 2, table_ .. " " .. row
   chosen[key] = chosen[key] or any_of(rows)
   local found = literal(chosen[key][place] or "N")
   for _ = 1, 20 do
      if use == "stored" or found ~= "NULL" then break end
      found = literal(any_of(rows)[place] or "N")
   end
   return found
end

local function statement_of(fields)
   local words, chosen = {}, {}
   for place = 3, #fields do words[#words + 1] = place % 2 == 1 and fields[place] or bound(fields[place], chosen) end
   return table.concat(words)
end

-- Long statements of a digest repeat when its share of the memory is used.
local MOST_BYTES = 64 * 1024 * 1024
local function make_statements(texts)
   math.randomseed(1)
   for _, fields in ipairs(digests) do
      local made, bytes = {}, 0
      for number = 1, tonumber(fields[2]) do
         local text = bytes < MOST_BYTES / #digests and statement_of(fields) or made[number % #made + 1]
         if bytes < MOST_BYTES / #digests then made[#made + 1], bytes = text, bytes + #text end
         texts[#texts + 1] = text
      end
   end
   sampled = {}
end

-- Numbers that do not repeat: of n multiples of the golden ratio, any two are at least 1/2.24n apart. Random numbers of an INT begin to
-- repeat after some 30,000. Each thread has its part, and each second its own: rounds before this one left their rows.
local GOLDEN = 0.61803398874989485
local OF_A_SECOND = 0.95097342621754388 -- 2^17 times GOLDEN, less whole numbers
local spread, spread_step
local function begin_spread(thread)
   spread = (shared.spread + thread * GOLDEN) % 1
   spread_step = sysbench.opt.threads * GOLDEN % 1
end

local function fresh_number(most)
   spread = (spread + spread_step) % 1
   return string.format("%.0f", math_floor(most * (0.5 + spread / 2)))
end

local function fresh_value(kind, most)
   most = tonumber(most)
   if kind == "n" then return fresh_number(most) end
   local letters = {}
   for place = 1, most do letters[place] = string.char(97 + math_floor(random() * 26)) end
   return "'" .. table.concat(letters) .. "'"
end

-- The client's library takes the password from the environment, which this process changes only in its memory: what others can read of it
-- in /proc is as it began. Without plugins of the library, no server can ask for the password itself.
local function use_password(password)
   ffi.C.setenv("MYSQL_PWD", password, 1)
   ffi.C.setenv("MARIADB_PLUGIN_DIR", "/dev/null/none", 1)
end

-- Statements in plain text, other lines as they are. From standard input: the file is root's, and this process is not.
local function read_input()
   local lines = {}
   if sysbench.opt.input ~= "-" then return lines end
   for line in io.stdin:lines() do
      local fields = fields_of(line)
      if fields[1] == "digest" then
         digests[#digests + 1] = fields
      elseif fields[1] == "row" then
         read_row(fields)
      elseif fields[1] == "password" then
         use_password(fields[2])
      else
         lines[#lines + 1] = fields[1] == "statement" and fields[2] or line
      end
   end
   make_statements(lines)
   return lines
end

local function keep_statements(texts)
   shared.statements = #texts
   shared.texts = ffi.cast("char **", ffi.C.calloc(#texts + 1, ffi.sizeof("char *")))
   shared.lengths = ffi.cast("size_t *", ffi.C.calloc(#texts + 1, ffi.sizeof("size_t")))
   shared.fresh = ffi.cast("char *", ffi.C.calloc(#texts + 1, 1))
   local known = {}
   for number, text in ipairs(texts) do
      known[text] = known[text] or copied(text)
      shared.texts[number - 1] = known[text]
      shared.lengths[number - 1] = #text
      shared.fresh[number - 1] = #digests > 0 and text:find(FRESH) and 1 or 0
   end
end

-- All threads take the next copy from one list in random order: no two are on the same one, and each copy has its turn.
local function shuffle(count)
   shared.order = ffi.cast("int *", ffi.C.calloc(count + 1, ffi.sizeof("int")))
   for place = 0, count - 1 do shared.order[place] = place + 1 end
   for place = count - 1, 1, -1 do
      local other = math_floor(random() * (place + 1))
      shared.order[place], shared.order[other] = shared.order[other], shared.order[place]
   end
end

function init()
   shared = ffi.cast("dbops_shared *", ffi.C.calloc(1, ffi.sizeof("dbops_shared")))
   shared.blocks = ffi.cast("dbops_block *", ffi.C.calloc(sysbench.opt.threads, ffi.sizeof("dbops_block")))
   for thread = 0, sysbench.opt.threads - 1 do shared.blocks[thread].epoch = -1 end
   shared.spread = math_floor(wall()) % 86400 * OF_A_SECOND % 1
   local lines = read_input()
   keep_statements(lines)
   if is_rotating() then
      assert(#lines > 0 and sysbench.opt.schemas > 0, "no statements or no copies")
      shuffle(sysbench.opt.schemas)
   end
   local address = string.format("%.0f", tonumber(ffi.cast("uintptr_t", shared)))
   ffi.C.setenv("DBOPS_LOAD_SHARED", address, 1)
end

-- ---- counting

local connection, block, failures, is_late_from = nil, nil, 0, nil

local function fresh_block()
   local epoch = shared.epoch
   if block.epoch ~= epoch then
      ffi.fill(block, ffi.sizeof("dbops_block"))
      block.least = 1e9
      block.epoch = epoch
   end
end

local function count_latency(ms)
   block.queries = block.queries + 1
   block.sum = block.sum + ms
   if ms < block.least then block.least = ms end
   if ms > block.most then block.most = ms end
   local bucket = ms > LEAST_MS and math_floor(math_log(ms / LEAST_MS) / LOG_RATIO) or 0
   if bucket > BUCKETS - 1 then bucket = BUCKETS - 1 end
   block.buckets[bucket] = block.buckets[bucket] + 1
end

local function count_error(number, text)
   block.errors = block.errors + 1
   block.last_number = number
   ffi.copy(block.last_text, one_line(text))
   for place = 0, 31 do
      if place == 31 then number = 0 end
      if block.counts[place] == 0 then block.numbers[place] = number end
      if block.numbers[place] == number then
         block.counts[place] = block.counts[place] + 1
         return
      end
   end
end

local function end_load(number, text)
   ffi.C.pthread_mutex_lock(shared.lock)
   local is_first = shared.ended == 0
   shared.ended = 1
   ffi.C.pthread_mutex_unlock(shared.lock)
   if is_first then say("ended %d %s", number, one_line(text)) end
   error("the load ended", 0)
end

-- Send a statement. Returns whether it succeeded; an error that need not end the load is counted.
local function send(text, length)
   local begun = is_late_from or now()
   is_late_from = nil
   ffi.C.db_query(connection, text, length)
   local done = now()
   fresh_block()
   if connection.error == sysbench.sql.error.NONE then
      failures = 0
      count_latency((done - begun) * 1000)
      return true
   end
   local number = connection.sql_errno
   local message = connection.sql_errmsg ~= nil and ffi.string(connection.sql_errmsg) or "the client's library failed"
   count_error(number, message)
   failures = failures + 1
   if ENDING[number] or failures >= FAILURES then end_load(number, message) end
   return false
end
local function query(text) return send(text, #text) end

-- The same for a statement that belongs to the tool, and is not counted.
local function must(text)
   ffi.C.db_query(connection, text, #text)
   if connection.error ~= sysbench.sql.error.NONE then
      end_load(connection.sql_errno, connection.sql_errmsg ~= nil and ffi.string(connection.sql_errmsg) or "unknown")
   end
end

-- ---- sysbench's OLTP statements, as text

local C_TEMPLATE = ("###########-"):rep(9) .. "###########"
local PAD_TEMPLATE = ("###########-"):rep(4) .. "###########"
local function any_table() return sysbench.rand.uniform(1, sysbench.opt.tables) end
local function any_id() return sysbench.rand.default(1, sysbench.opt.table_rows) end
local RANGES = {
   "SELECT c FROM sbtest%d WHERE id BETWEEN %d AND %d",
   "SELECT SUM(k) FROM sbtest%d WHERE id BETWEEN %d AND %d",
   "SELECT c FROM sbtest%d WHERE id BETWEEN %d AND %d ORDER BY c",
   "SELECT DISTINCT c FROM sbtest%d WHERE id BETWEEN %d AND %d ORDER BY c"
}

local function point_select(number)
   return query(string.format("SELECT c FROM sbtest%d WHERE id=%d", number, any_id()))
end

local function read()
   local number = any_table()
   for _ = 1, 10 do
      if not point_select(number) then return false end
   end
   for _, text in ipairs(RANGES) do
      local id = any_id()
      if not query(string.format(text, any_table(), id, id + 99)) then return false end
   end
   return true
end

local function write()
   local id, number = any_id(), any_table()
   return query(string.format("UPDATE sbtest%d SET k=k+1 WHERE id=%d", any_table(), any_id()))
      and query(string.format("UPDATE sbtest%d SET c='%s' WHERE id=%d", any_table(), sysbench.rand.string(C_TEMPLATE), any_id()))
      and query(string.format("DELETE FROM sbtest%d WHERE id=%d", number, id))
      and query(string.format("INSERT INTO sbtest%d (id, k, c, pad) VALUES (%d, %d, '%s', '%s')", number, id, any_id(),
                              sysbench.rand.string(C_TEMPLATE), sysbench.rand.string(PAD_TEMPLATE)))
end

local function transaction(...)
   local is_good = query("BEGIN")
   for _, part in ipairs({...}) do is_good = is_good and part() end
   if is_good then is_good = query("COMMIT") end
   if not is_good then must("ROLLBACK") end
   return is_good
end

-- ---- rotating schemas

local leaves_at = 0
local function next_schema()
   ffi.C.pthread_mutex_lock(shared.lock)
   local turn = shared.turns
   shared.turns = turn + 1
   ffi.C.pthread_mutex_unlock(shared.lock)
   must("USE " .. quoted(string.format(COPY, shared.order[turn % sysbench.opt.schemas])))
end

local function rotate()
   if now() >= leaves_at then
      next_schema()
      leaves_at = now() + sysbench.opt.seconds_on_schema
   end
   local place = math_floor(random() * tonumber(shared.statements))
   if shared.fresh[place] == 0 then return send(shared.texts[place], tonumber(shared.lengths[place])) end
   return query((ffi.string(shared.texts[place], shared.lengths[place]):gsub(FRESH, fresh_value)))
end

-- ---- inserts

local columns, insert_into = {}, ""
local function random_text(length)
   local letters = {}
   for place = 1, length do letters[place] = string.char(97 + math_floor(random() * 26)) end
   return "'" .. table.concat(letters) .. "'"
end

-- An integer of 64 bits between two others, as text. Doubles are exact to 53 bits only.
local function random_integer(low, high)
   local is_unsigned = low:sub(1, 1) ~= "-"
   local lowest = is_unsigned and ffi.C.strtoull(low, nil, 10) or ffi.cast("uint64_t", ffi.C.strtoll(low, nil, 10))
   local highest = high:sub(1, 1) ~= "-" and ffi.C.strtoull(high, nil, 10) or ffi.cast("uint64_t", ffi.C.strtoll(high, nil, 10))
   local width = highest - lowest + 1ULL
   return function()
      local value = sysbench.rand.uniform_uint64()
      if width ~= 0ULL then value = value % width end
      value = lowest + value
      return is_unsigned and tostring(value):sub(1, -4) or tostring(ffi.cast("int64_t", value)):sub(1, -3)
   end
end

local INTEGERS = {tinyint = "127", smallint = "32767", mediumint = "8388607", int = "2147483647", bigint = "9223372036854775807"}
-- A maker of values for a column that must have one: not null, without a default and without a counter.
local function maker_of(kind, length)
   kind = kind:lower()
   if INTEGERS[kind] then return random_integer("0", INTEGERS[kind]) end
   if kind:find("char") or kind:find("text") or kind:find("blob") or kind:find("binary") then
      local count = math.min(tonumber(length) or 16, 32)
      return function() return random_text(count) end
   end
   if kind == "json" then return function() return "'{}'" end end
   if kind == "date" or kind == "datetime" or kind == "timestamp" or kind == "time" then return function() return "NOW()" end end
   if kind == "year" then return function() return "2026" end end
   return function() return "1" end
end

local NEEDED = [[SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()
   AND TABLE_NAME = '%s' AND IS_NULLABLE = 'NO' AND COLUMN_DEFAULT IS NULL AND EXTRA NOT LIKE '%%auto_increment%%' AND EXTRA NOT LIKE '%%GENERATED%%'
   ORDER BY ORDINAL_POSITION]]

-- The column that TiDB fills with random ids, which must get no value. information_schema does not tell it.
local function note_random_ids(name, known)
   local text = "SHOW CREATE TABLE " .. quoted(name)
   local found = ffi.C.db_query(connection, text, #text)
   local row = connection.error == sysbench.sql.error.NONE and found ~= nil and found.nrows > 0 and found:fetch_row()
   for line in (row and row[2] or ""):gmatch("[^\n]+") do
      local column = line:find("/*T![auto_rand]", 1, true) and line:match("^%s*`(.-)` ")
      if column then known[column:gsub("``", "`")] = true end
   end
end

local function plan_inserts()
   local name, names, known = "", {}, {}
   for place = 0, tonumber(shared.statements) - 1 do
      local fields = fields_of(ffi.string(shared.texts[place], shared.lengths[place]))
      if fields[1] == "table" then name = fields[2] end
      if fields[1] == "key" then
         names[#names + 1], known[fields[2]] = quoted(fields[2]), true
         columns[#columns + 1] = random_integer(fields[3], fields[4])
      end
   end
   note_random_ids(name, known)
   local text = NEEDED:format((name:gsub("\\", "\\\\"):gsub("'", "''")))
   local found = ffi.C.db_query(connection, text, #text)
   if connection.error ~= sysbench.sql.error.NONE then end_load(connection.sql_errno, ffi.string(connection.sql_errmsg)) end
   for _ = 1, found ~= nil and found.nrows or 0 do
      local row = found:fetch_row()
      if not known[row[1]] then
         names[#names + 1] = quoted(row[1])
         columns[#columns + 1] = maker_of(row[2], row[3])
      end
   end
   insert_into = "INSERT INTO " .. quoted(name) .. " (" .. table.concat(names, ", ") .. ") VALUES ("
end

local function insert()
   local values = {}
   for place, make in ipairs(columns) do values[place] = make() end
   return query(insert_into .. table.concat(values, ", ") .. ")")
end

-- ---- threads

local EVENTS = {
   ["read-only"] = function() return transaction(read) end,
   ["write-only"] = function() return transaction(write) end,
   ["read-write"] = function() return transaction(read, write) end,
   ["point-select"] = function() return point_select(any_table()) end,
   ["rotating-schemas"] = rotate,
   insert = insert
}
local event_of_profile

function thread_init(thread)
   find_shared()
   block = shared.blocks[thread]
   event_of_profile = assert(EVENTS[sysbench.opt.profile], "unknown profile")
   connection = sysbench.sql.driver():connect()
   begin_spread(thread)
   if sysbench.opt.profile == "insert" then plan_inserts() end
end

-- Wait for the next event's time at the wanted rate, with random gaps (Poisson). Returns false if the load ends before it. A thread that
-- comes late counts its statement from the time that was due: without this the waits behind a slow statement would not be seen.
local function await_turn()
   ffi.C.pthread_mutex_lock(shared.lock)
   local due = shared.due - math_log(1 - random()) / sysbench.opt.wanted_rate
   shared.due = due
   ffi.C.pthread_mutex_unlock(shared.lock)
   local early = due - now()
   if early <= 0 then
      is_late_from = due
      return true
   end
   local left = shared.started + sysbench.opt.load_seconds - now()
   sleep(math.max(0, math.min(early, left)))
   return early <= left
end

function event()
   if shared.started == 0 then
      ffi.C.pthread_mutex_lock(shared.lock)
      if shared.started == 0 then
         shared.due = now()
         shared.started = shared.due
         if sysbench.opt.warm_up == 0 then
            shared.measuring, shared.epoch = now(), 1
            say("measuring %.3f %.3f", wall(), cpu())
         end
      end
      ffi.C.pthread_mutex_unlock(shared.lock)
   end
   if shared.ended ~= 0 then error("the load ended", 0) end
   if sysbench.opt.wanted_rate > 0 and not await_turn() then return end
   if not event_of_profile() then return end -- a failed event is none: its statement counts as an error
   fresh_block()
   block.events = block.events + 1
end

function thread_done() connection:disconnect() end

-- ---- report

local function merged()
   local all = ffi.new("dbops_block")
   all.least = 1e9
   for thread = 0, sysbench.opt.threads - 1 do
      local one = shared.blocks[thread]
      if one.epoch == shared.epoch then
         all.queries, all.errors, all.events = all.queries + one.queries, all.errors + one.errors, all.events + one.events
         all.sum = all.sum + one.sum
         all.least, all.most = math.min(all.least, one.least), math.max(all.most, one.most)
         for bucket = 0, BUCKETS - 1 do all.buckets[bucket] = all.buckets[bucket] + one.buckets[bucket] end
      end
   end
   return all
end

local before, seconds = nil, 0
local function p95_since(all)
   local wanted, sum = 0.95 * (all.queries - before.queries), 0
   if wanted <= 0 then return "-" end
   for bucket = 0, BUCKETS - 1 do
      sum = sum + all.buckets[bucket] - before.buckets[bucket]
      if sum >= wanted then return string.format("%.6g", LEAST_MS * RATIO ^ (bucket + 1)) end
   end
   return string.format("%.6g", all.most)
end

local function report()
   find_shared()
   if shared.started == 0 then return end
   if shared.epoch == 0 then
      if now() - shared.started >= sysbench.opt.warm_up - 0.1 then
         shared.measuring, shared.first_turn, shared.epoch = now(), shared.turns, 1
         say("measuring %.3f %.3f", wall(), cpu())
      end
      return
   end
   local all = merged()
   before = before or ffi.new("dbops_block")
   seconds = seconds + 1
   say("second %d %.0f %.0f %s", seconds, all.queries - before.queries, all.errors - before.errors, p95_since(all))
   before = all
end

-- At its end sysbench cancels the thread that reports. A cancellation inside of Lua, which writes here, can abort the process. One of
-- 60 rounds ended so (SIGABRT, no message). So it has to wait until this function has returned.
function sysbench.hooks.report_intermediate()
   ffi.C.pthread_setcancelstate(1, nil)
   local is_good, message = pcall(report)
   if not is_good then say("message 0 %s", one_line(tostring(message))) end
   ffi.C.pthread_setcancelstate(0, nil)
end

-- Replaces the text of sysbench.
function sysbench.hooks.report_cumulative() end

local function say_errors()
   local counts = {}
   for thread = 0, sysbench.opt.threads - 1 do
      local one = shared.blocks[thread]
      for place = 0, 31 do
         if one.epoch == shared.epoch and one.counts[place] > 0 then
            counts[one.numbers[place]] = (counts[one.numbers[place]] or 0) + one.counts[place]
         end
      end
   end
   for number, count in pairs(counts) do say("error %.0f %.0f", number, count) end
   for thread = 0, sysbench.opt.threads - 1 do
      local one = shared.blocks[thread]
      if one.epoch == shared.epoch and one.errors > 0 then
         say("message %d %s", one.last_number, ffi.string(one.last_text))
         break
      end
   end
end

function done()
   if shared.measuring == 0 then return end
   say("end %.3f %.3f", wall(), cpu())
   local all, stop = merged(), shared.started + sysbench.opt.load_seconds
   local rate = sysbench.opt.wanted_rate
   local unserved = rate > 0 and math.max(0, (stop - shared.due) * rate) or 0
   -- Behind a warm-up each thread is on a schema already, without a turn of the measured part.
   local held = sysbench.opt.warm_up > 0 and sysbench.opt.threads or 0
   local visited = is_rotating() and math.min(sysbench.opt.schemas, shared.turns - shared.first_turn + held) or 0
   say("total %.0f %.0f %.0f %.0f %.0f", all.queries, all.errors, unserved, visited, all.events)
   if all.queries > 0 then say("latency %.6g %.6g %.10g", all.least, all.most, all.sum) end
   for bucket = 0, BUCKETS - 1 do
      if all.buckets[bucket] > 0 then say("bucket %.6g %.0f", LEAST_MS * RATIO ^ (bucket + 1), all.buckets[bucket]) end
   end
   say_errors()
end

-- ---- tables of the first four profiles

local function make_table(con, number)
   con:query(string.format([[CREATE TABLE sbtest%d (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL,
      c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB]], number))
   con:bulk_insert_init(string.format("INSERT INTO sbtest%d (k, c, pad) VALUES", number))
   for row = 1, sysbench.opt.table_rows do
      con:bulk_insert_next(string.format("(%d, '%s', '%s')", sysbench.rand.uniform(1, sysbench.opt.table_rows),
                                         sysbench.rand.string(C_TEMPLATE), sysbench.rand.string(PAD_TEMPLATE)))
      if row % 20000 == 0 then say("rows %d %d", number, row) end
   end
   con:bulk_insert_done()
   con:query(string.format("CREATE INDEX k_%d ON sbtest%d (k)", number, number))
   say("table %d", number)
end

local function prepare()
   local con = sysbench.sql.driver():connect()
   for number = sysbench.tid % sysbench.opt.threads + 1, sysbench.opt.tables, sysbench.opt.threads do make_table(con, number) end
end

local function cleanup()
   local con = sysbench.sql.driver():connect()
   for number = 1, sysbench.opt.tables do con:query(string.format("DROP TABLE IF EXISTS sbtest%d", number)) end
end

sysbench.cmdline.commands = {prepare = {prepare, sysbench.cmdline.PARALLEL_COMMAND}, cleanup = {cleanup}}
