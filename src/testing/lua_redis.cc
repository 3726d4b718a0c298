#include "testing/lua_redis.h"

#include <lua.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "testing/lua_memory.h"
#include "testing/sha1.h"

namespace weir::testing {

struct LuaRedis::Reply {
  enum Kind { status, error, integer, bulk, nil, array } kind = nil;
  std::string text;
  std::int64_t number = 0;
  std::vector<Reply> items;

  static Reply of_status(std::string text) { return {status, std::move(text)}; }
  static Reply of_error(std::string text) { return {error, std::move(text)}; }
  static Reply of_integer(std::int64_t number) { return {integer, {}, number}; }
  static Reply of_bulk(std::string text) { return {bulk, std::move(text)}; }
  static Reply of_nil() { return {}; }

  void append_to(std::string& out) const {
    switch (kind) {
      case status:
        out += "+" + text + "\r\n";
        break;
      case error:
        out += "-" + text + "\r\n";
        break;
      case integer:
        out += ":" + std::to_string(number) + "\r\n";
        break;
      case bulk:
        out += '$';
        out += std::to_string(text.size());
        out += "\r\n";
        out += text;
        out += "\r\n";
        break;
      case nil:
        out += "$-1\r\n";
        break;
      case array:
        out += "*" + std::to_string(items.size()) + "\r\n";
        for (const Reply& item : items) item.append_to(out);
        break;
    }
  }
};

namespace {

constexpr const char* kWrongType =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::int64_t to_number(const std::string& text) {
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// A number as Redis hands it to a command: integers without a point.
std::string number_text(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  char digits[40];
  std::snprintf(digits, sizeof(digits), "%.17g", value);
  return digits;
}

// ---- The struct library: '>' big endian, B, I<n>, c<n>
// --------------------------------------------

struct Field {
  char kind;
  std::size_t size;
};

// Scripts have few formats, and use them all the time.
const std::vector<Field>& fields_of(lua_State* lua, const char* format) {
  thread_local std::map<std::string, std::vector<Field>, std::less<>> formats;
  const auto found = formats.find(std::string_view(format));
  if (found != formats.end()) return found->second;
  const std::string whole = format;
  std::vector<Field> fields;
  if (*format != '>') luaL_error(lua, "only big-endian formats are known here");
  for (++format; *format != 0;) {
    Field field{*format++, 0};
    while (std::isdigit(static_cast<unsigned char>(*format)) != 0) {
      field.size = field.size * 10 + static_cast<std::size_t>(*format++ - '0');
    }
    if (field.kind == 'B') field.size = 1;
    const bool known = field.kind == 'B' || field.kind == 'I' || field.kind == 'c';
    if (!known || field.size == 0) luaL_error(lua, "invalid format option '%c'", field.kind);
    fields.push_back(field);
  }
  return formats.emplace(whole, std::move(fields)).first->second;
}

int struct_pack(lua_State* lua) {
  std::string out;
  int argument = 2;
  for (const Field& field : fields_of(lua, luaL_checkstring(lua, 1))) {
    if (field.kind == 'c') {
      std::size_t size = 0;
      const char* text = luaL_checklstring(lua, argument++, &size);
      luaL_argcheck(lua, size >= field.size, argument - 1, "string too short");
      out.append(text, field.size);
      continue;
    }
    const double number = luaL_checknumber(lua, argument++);
    if (number < 0 || number != std::floor(number) ||
        (field.size < 8 && number >= static_cast<double>(std::uint64_t{1} << (8 * field.size)))) {
      luaL_error(lua, "%f does not fit %d bytes", number, static_cast<int>(field.size));
    }
    const auto value = static_cast<std::uint64_t>(number);
    for (std::size_t i = field.size; i > 0; --i) {
      out += static_cast<char>(i > 8 ? 0 : value >> (8 * (i - 1)));
    }
  }
  lua_pushlstring(lua, out.data(), out.size());
  return 1;
}

int struct_unpack(lua_State* lua) {
  std::size_t size = 0;
  const char* data = luaL_checklstring(lua, 2, &size);
  auto at = static_cast<std::size_t>(luaL_optinteger(lua, 3, 1)) - 1;
  int pushed = 0;
  for (const Field& field : fields_of(lua, luaL_checkstring(lua, 1))) {
    luaL_argcheck(lua, at + field.size <= size, 2, "data string too short");
    luaL_checkstack(lua, 2, "too many results");
    if (field.kind == 'c') {
      lua_pushlstring(lua, data + at, field.size);
    } else {
      std::uint64_t value = 0;
      for (std::size_t i = 0; i < field.size; ++i) {
        value = value << 8 | static_cast<unsigned char>(data[at + i]);
      }
      lua_pushnumber(lua, static_cast<double>(value));
    }
    at += field.size;
    ++pushed;
  }
  lua_pushinteger(lua, static_cast<lua_Integer>(at + 1));
  return pushed + 1;
}

}  // namespace

// ---- Between Lua and the key space
// ---------------------------------------------------------------

// A Lua with what Redis gives to scripts. To make one and to compile the scripts costs more than a
// short life's commands do: whoever is done with one leaves it to the next, who finds the compiled
// scripts there and nothing else that a script can tell.
struct LuaRedis::Lua {
  Lua();
  ~Lua() { lua_close(state); }
  Lua(const Lua&) = delete;
  Lua& operator=(const Lua&) = delete;

  const std::string& sha_of(const std::string& text) {
    const auto known = shas.find(text);
    return known != shas.end() ? known->second : shas.emplace(text, sha1_hex(text)).first->second;
  }

  static std::unique_ptr<Lua> take();
  static void leave(std::unique_ptr<Lua> lua);

  LuaMemory memory;
  lua_State* const state = lua_newstate(LuaMemory::allocate, &memory);
  LuaRedis* owner = nullptr;
  std::map<std::string, int, std::less<>> compiled;      // by SHA-1: places in Lua's registry
  std::map<std::string, std::string, std::less<>> shas;  // by text

 private:
  struct Idle {
    std::mutex mutex;
    std::vector<std::unique_ptr<Lua>> all;
  };
  static Idle& idle() {
    static Idle& idle = *new Idle;  // for good: whoever is the last to leave one
    return idle;
  }
};

struct LuaGlue {
  using Reply = LuaRedis::Reply;

  static void push(lua_State* lua, const Reply& reply) {
    switch (reply.kind) {
      case Reply::bulk:
        lua_pushlstring(lua, reply.text.data(), reply.text.size());
        break;
      case Reply::integer:
        lua_pushnumber(lua, static_cast<double>(reply.number));
        break;
      case Reply::nil:
        lua_pushboolean(lua, 0);
        break;
      case Reply::status:
      case Reply::error:
        lua_newtable(lua);
        lua_pushlstring(lua, reply.text.data(), reply.text.size());
        lua_setfield(lua, -2, reply.kind == Reply::error ? "err" : "ok");
        break;
      case Reply::array:
        lua_newtable(lua);
        for (std::size_t i = 0; i < reply.items.size(); ++i) {
          push(lua, reply.items[i]);
          lua_rawseti(lua, -2, static_cast<int>(i + 1));
        }
        break;
    }
  }

  static Reply pop(lua_State* lua) {
    Reply reply;
    switch (lua_type(lua, -1)) {
      case LUA_TSTRING: {
        std::size_t size = 0;
        const char* text = lua_tolstring(lua, -1, &size);
        reply = Reply::of_bulk(std::string(text, size));
        break;
      }
      case LUA_TNUMBER:
        reply = Reply::of_integer(static_cast<std::int64_t>(lua_tonumber(lua, -1)));
        break;
      case LUA_TBOOLEAN:
        reply = lua_toboolean(lua, -1) != 0 ? Reply::of_integer(1) : Reply::of_nil();
        break;
      case LUA_TTABLE:
        reply = pop_table(lua);
        break;
      default:
        break;
    }
    lua_pop(lua, 1);
    return reply;
  }

  static Reply pop_table(lua_State* lua) {
    for (const char* name : {"err", "ok"}) {
      lua_getfield(lua, -1, name);
      const bool is = lua_type(lua, -1) == LUA_TSTRING;
      const std::string text = is ? lua_tostring(lua, -1) : "";
      lua_pop(lua, 1);
      if (is) return name[0] == 'e' ? Reply::of_error(text) : Reply::of_status(text);
    }
    Reply reply{Reply::array};
    for (int i = 1;; ++i) {
      lua_rawgeti(lua, -1, i);
      if (lua_isnil(lua, -1)) break;
      reply.items.push_back(pop(lua));
    }
    lua_pop(lua, 1);
    return reply;
  }

  // Runs the command on the stack and leaves its reply there. No Lua error passes through here: it
  // would jump over destructors.
  static bool failed_call(lua_State* lua) {
    auto* self = static_cast<LuaRedis::Lua*>(lua_touserdata(lua, lua_upvalueindex(1)))->owner;
    LuaRedis::Args args;
    args.reserve(static_cast<std::size_t>(lua_gettop(lua)));
    for (int i = 1; i <= lua_gettop(lua); ++i) {
      if (lua_type(lua, i) == LUA_TNUMBER) {
        args.push_back(number_text(lua_tonumber(lua, i)));
      } else if (lua_type(lua, i) == LUA_TSTRING) {
        std::size_t size = 0;
        const char* text = lua_tolstring(lua, i, &size);
        args.emplace_back(text, size);
      } else {
        push(lua,
             Reply::of_error("ERR Lua redis lib command arguments must be strings or integers"));
        return true;
      }
    }
    const Reply reply = self->run(args);
    push(lua, reply);
    return reply.kind == Reply::error;
  }
  static int call_raising(lua_State* lua) { return failed_call(lua) ? lua_error(lua) : 1; }
  static int call_protected(lua_State* lua) {
    failed_call(lua);
    return 1;
  }

  static int refuse_global(lua_State* lua) {
    return luaL_error(lua, "Script attempted to create global variable '%s'",
                      luaL_checkstring(lua, 2));
  }

  static void set_table(lua_State* lua, const char* name, const LuaRedis::Args& values,
                        std::size_t from, std::size_t to) {
    lua_newtable(lua);
    for (std::size_t i = from; i < to; ++i) {
      lua_pushlstring(lua, values[i].data(), values[i].size());
      lua_rawseti(lua, -2, static_cast<int>(i - from + 1));
    }
    lua_setglobal(lua, name);
  }
};

LuaRedis::Lua::Lua() {
  luaL_openlibs(state);
  lua_newtable(state);
  lua_pushlightuserdata(state, this);
  lua_pushcclosure(state, LuaGlue::call_raising, 1);
  lua_setfield(state, -2, "call");
  lua_pushlightuserdata(state, this);
  lua_pushcclosure(state, LuaGlue::call_protected, 1);
  lua_setfield(state, -2, "pcall");
  lua_setglobal(state, "redis");
  lua_newtable(state);
  lua_pushcfunction(state, struct_pack);
  lua_setfield(state, -2, "pack");
  lua_pushcfunction(state, struct_unpack);
  lua_setfield(state, -2, "unpack");
  lua_setglobal(state, "struct");
  // A script's globals are its own business nowhere: Redis refuses them.
  for (const char* name : {"KEYS", "ARGV"}) LuaGlue::set_table(state, name, {}, 0, 0);
  lua_newtable(state);
  lua_pushcfunction(state, LuaGlue::refuse_global);
  lua_setfield(state, -2, "__newindex");
  lua_setmetatable(state, LUA_GLOBALSINDEX);
}

std::unique_ptr<LuaRedis::Lua> LuaRedis::Lua::take() {
  Idle& of = idle();
  const std::lock_guard lock(of.mutex);
  if (of.all.empty()) return std::make_unique<Lua>();
  std::unique_ptr<Lua> lua = std::move(of.all.back());
  of.all.pop_back();
  return lua;
}

void LuaRedis::Lua::leave(std::unique_ptr<Lua> lua) {
  // Scripts of a test's own, which no other will ask for.
  constexpr std::size_t kMostCompiled = 64;
  if (lua->shas.size() > kMostCompiled) return;
  lua->owner = nullptr;
  Idle& of = idle();
  const std::lock_guard lock(of.mutex);
  of.all.push_back(std::move(lua));
}

LuaRedis::LuaRedis(Instant now, std::string_view name) : lua_(Lua::take()), now_(now), name_(name) {
  lua_->owner = this;
  restart_with({});
}

LuaRedis::~LuaRedis() {
  Lua::leave(std::move(lua_));
}

void LuaRedis::restart_with(Keys keys) {
  keys_ = std::move(keys);
  scripts_.clear();
  run_id_ = sha1_hex(name_ + "run " + std::to_string(++starts_));
}

std::string LuaRedis::execute(const std::vector<std::string>& command) {
  std::string out;
  run(command).append_to(out);
  return out;
}

LuaRedis::Value* LuaRedis::find(const std::string& key) {
  const auto at = keys_.find(key);
  if (at == keys_.end()) return nullptr;
  if (expiry_ && at->second.expires_at && *at->second.expires_at <= now_) {
    keys_.erase(at);
    return nullptr;
  }
  return &at->second;
}

std::deque<std::string>* LuaRedis::list(const std::string& key, Reply& error) {
  Value* value = find(key);
  if (value == nullptr) return nullptr;
  auto* items = std::get_if<std::deque<std::string>>(&value->data);
  if (items == nullptr) error = Reply::of_error(kWrongType);
  return items;
}

LuaRedis::Reply LuaRedis::run(const Args& args) {
  if (args.empty()) return Reply::of_error("ERR empty command");
  const std::string name = upper(args[0]);
  static const std::set<std::string, std::less<>> kWrites = {
      "DEL",   "FLUSHALL", "HDEL", "HSET",  "LPUSH", "LREM", "LSET",
      "LTRIM", "PEXPIRE",  "RPOP", "RPUSH", "SET",   "ZADD", "ZREM"};
  if (!write_fault_.empty() && kWrites.contains(name)) return Reply::of_error(write_fault_);
  // What scripts do most.
  if (args.size() > 1 && (name == "GET" || name == "SET")) return run_string(name, args);
  if (name == "PUBLISH" && args.size() == 3) {
    if (!publish_fault_.empty()) return Reply::of_error(publish_fault_);
    ++published_;
    return Reply::of_integer(on_publish ? on_publish(args[1], args[2]) : 0);
  }
  if (name == "TIME") {
    const auto us = std::chrono::floor<std::chrono::microseconds>(now_).time_since_epoch().count();
    Reply reply{Reply::array};
    reply.items.reserve(2);
    reply.items.push_back(Reply::of_bulk(std::to_string(us / 1'000'000)));
    reply.items.push_back(Reply::of_bulk(std::to_string(us % 1'000'000)));
    return reply;
  }
  if (name == "PING") return Reply::of_status("PONG");
  if (name == "AUTH" || name == "CLIENT" || name == "SELECT") return Reply::of_status("OK");
  if (name == "INFO") {
    return Reply::of_bulk(
        "# Server\r\nredis_version:7.0.15\r\nrun_id:" + run_id_ +
        "\r\nredis_mode:standalone\r\n# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n"
        "# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
  }
  if (name == "FLUSHALL") {
    keys_.clear();
    return Reply::of_status("OK");
  }
  if (name == "SCRIPT") {
    if (args.size() == 3 && upper(args[1]) == "LOAD") {
      const std::string& sha = lua_->sha_of(args[2]);
      scripts_.try_emplace(sha, args[2]);
      return Reply::of_bulk(sha);
    }
    scripts_.clear();
    return Reply::of_status("OK");
  }
  if (name == "EVAL" || name == "EVALSHA") {
    if (in_script_ || args.size() < 3) return Reply::of_error("ERR not here");
    if (name == "EVAL") {
      const std::string& sha = lua_->sha_of(args[1]);
      scripts_.try_emplace(sha, args[1]);
      return run_script(args, sha, args[1]);
    }
    const auto script = scripts_.find(args[1]);
    if (script == scripts_.end()) {
      return Reply::of_error("NOSCRIPT No matching script. Please use EVAL.");
    }
    return run_script(args, script->first, script->second);
  }
  if (args.size() < 2) return Reply::of_error("ERR unknown command '" + args[0] + "'");
  if (name[0] == 'H') return run_hash(name, args);
  if (name[0] == 'Z') return run_sorted(name, args);
  return name[0] == 'L' || name == "RPUSH" || name == "RPOP" ? run_list(name, args)
                                                             : run_string(name, args);
}

// Leaves the script's function, or what is wrong with it, on the stack.
bool LuaRedis::push_compiled(const std::string& sha, const std::string& text) {
  lua_State* const lua = lua_->state;
  const auto known = lua_->compiled.find(sha);
  if (known == lua_->compiled.end()) {
    if (luaL_loadbuffer(lua, text.data(), text.size(), "@user_script") != 0) return false;
    lua_pushvalue(lua, -1);
    lua_->compiled.emplace(sha, luaL_ref(lua, LUA_REGISTRYINDEX));
    return true;
  }
  lua_rawgeti(lua, LUA_REGISTRYINDEX, known->second);
  return true;
}

LuaRedis::Reply LuaRedis::run_script(const Args& args, const std::string& sha,
                                     const std::string& text) {
  lua_State* const lua = lua_->state;
  const auto count = static_cast<std::size_t>(to_number(args[2]));
  if (3 + count > args.size()) return Reply::of_error("ERR Number of keys");
  LuaGlue::set_table(lua, "KEYS", args, 3, 3 + count);
  LuaGlue::set_table(lua, "ARGV", args, 3 + count, args.size());
  if (!push_compiled(sha, text)) {
    const std::string message = lua_tostring(lua, -1);
    lua_pop(lua, 1);
    return Reply::of_error("ERR Error compiling script: " + message);
  }
  in_script_ = true;
  const int failed = lua_pcall(lua, 0, 1, 0);
  in_script_ = false;
  if (failed == 0) return LuaGlue::pop(lua);
  Reply reply = LuaGlue::pop(lua);
  if (reply.kind == Reply::error) return reply;
  return Reply::of_error("ERR Error running script: " + reply.text);
}

LuaRedis::Reply LuaRedis::set(const Args& args) {
  Value value{args[2], std::nullopt};
  for (std::size_t i = 3; i < args.size(); ++i) {
    const std::string option = upper(args[i]);
    if (option == "NX") {
      if (find(args[1]) != nullptr) return Reply::of_nil();
    } else if (option == "PX" && i + 1 < args.size()) {
      const std::int64_t ms = to_number(args[++i]);
      if (ms <= 0 || args[i] != std::to_string(ms)) {
        return Reply::of_error("ERR invalid expire time in 'set' command");
      }
      value.expires_at = now_ + std::chrono::milliseconds(ms);
    } else {
      return Reply::of_error("ERR syntax error");
    }
  }
  keys_[args[1]] = std::move(value);
  return Reply::of_status("OK");
}

LuaRedis::Reply LuaRedis::run_string(const std::string& name, const Args& args) {
  Value* value = find(args[1]);
  if (name == "GET") {
    if (value == nullptr) return Reply::of_nil();
    const auto* text = std::get_if<std::string>(&value->data);
    return text != nullptr ? Reply::of_bulk(*text) : Reply::of_error(kWrongType);
  }
  if (name == "SET" && args.size() >= 3) return set(args);
  if (name == "TYPE") {
    if (value == nullptr) return Reply::of_status("none");
    constexpr const char* kTypes[] = {"string", "list", "hash", "zset"};
    return Reply::of_status(kTypes[value->data.index()]);
  }
  if (name == "EXISTS") return Reply::of_integer(value != nullptr);
  if (name == "DEL") {
    std::int64_t gone = 0;
    for (std::size_t i = 1; i < args.size(); ++i)
      gone += static_cast<std::int64_t>(keys_.erase(args[i]));
    return Reply::of_integer(gone);
  }
  if (name == "PERSIST") {
    if (value == nullptr || !value->expires_at) return Reply::of_integer(0);
    value->expires_at.reset();
    return Reply::of_integer(1);
  }
  if (name == "PTTL") {
    if (value == nullptr) return Reply::of_integer(-2);
    if (!value->expires_at) return Reply::of_integer(-1);
    return Reply::of_integer(
        std::chrono::ceil<std::chrono::milliseconds>(*value->expires_at - now_).count());
  }
  if (name == "PEXPIRE" && args.size() == 3) {
    if (value == nullptr) return Reply::of_integer(0);
    const std::int64_t ms = to_number(args[2]);
    if (args[2] != std::to_string(ms)) return Reply::of_error("ERR value is not an integer");
    value->expires_at = now_ + std::chrono::milliseconds(ms);
    return Reply::of_integer(1);
  }
  return Reply::of_error("ERR unknown command '" + args[0] + "'");
}

LuaRedis::Reply LuaRedis::run_list(const std::string& name, const Args& args) {
  Reply error;
  std::deque<std::string>* items = list(args[1], error);
  if (error.kind == Reply::error) return error;
  if (name == "RPUSH" || name == "LPUSH") {
    if (items == nullptr) {
      items = &std::get<std::deque<std::string>>(
          (keys_[args[1]] = Value{std::deque<std::string>{}, std::nullopt}).data);
    }
    for (std::size_t i = 2; i < args.size(); ++i) {
      name == "RPUSH" ? items->push_back(args[i]) : items->push_front(args[i]);
    }
    return Reply::of_integer(static_cast<std::int64_t>(items->size()));
  }
  const auto size = items == nullptr ? 0 : static_cast<std::int64_t>(items->size());
  const auto index = [&](std::size_t i) {
    const std::int64_t at = to_number(args[i]);
    return at < 0 ? at + size : at;
  };
  if (name == "LLEN") return Reply::of_integer(size);
  if (name == "LINDEX") {
    const std::int64_t at = index(2);
    if (at < 0 || at >= size) return Reply::of_nil();
    return Reply::of_bulk((*items)[static_cast<std::size_t>(at)]);
  }
  if (name == "LSET") {
    const std::int64_t at = index(2);
    if (items == nullptr) return Reply::of_error("ERR no such key");
    if (at < 0 || at >= size) return Reply::of_error("ERR index out of range");
    (*items)[static_cast<std::size_t>(at)] = args[3];
    return Reply::of_status("OK");
  }
  if (name == "RPOP") {
    if (items == nullptr) return Reply::of_nil();
    Reply reply = Reply::of_bulk(items->back());
    items->pop_back();
    if (items->empty()) keys_.erase(args[1]);
    return reply;
  }
  if (name == "LRANGE" || name == "LTRIM") {
    const std::int64_t from = std::max<std::int64_t>(index(2), 0);
    const std::int64_t to = std::min<std::int64_t>(index(3), size - 1);
    std::deque<std::string> part;
    for (std::int64_t i = from; i <= to; ++i) part.push_back((*items)[static_cast<std::size_t>(i)]);
    if (name == "LTRIM") {
      if (items != nullptr && part.empty())
        keys_.erase(args[1]);
      else if (items != nullptr)
        *items = std::move(part);
      return Reply::of_status("OK");
    }
    Reply reply{Reply::array};
    for (std::string& item : part) reply.items.push_back(Reply::of_bulk(std::move(item)));
    return reply;
  }
  if (name == "LREM" && args[2] == "-1") {
    if (items == nullptr) return Reply::of_integer(0);
    const auto last = std::find(items->rbegin(), items->rend(), args[3]);
    if (last == items->rend()) return Reply::of_integer(0);
    items->erase(std::next(last).base());
    if (items->empty()) keys_.erase(args[1]);
    return Reply::of_integer(1);
  }
  return Reply::of_error("ERR unknown command '" + args[0] + "'");
}

LuaRedis::Reply LuaRedis::run_hash(const std::string& name, const Args& args) {
  using Hash = std::map<std::string, std::string>;
  Value* value = find(args[1]);
  Hash* hash = value == nullptr ? nullptr : std::get_if<Hash>(&value->data);
  if (value != nullptr && hash == nullptr) return Reply::of_error(kWrongType);
  if (name == "HSET" && args.size() == 4) {
    if (hash == nullptr) hash = &std::get<Hash>((keys_[args[1]] = Value{Hash{}, {}}).data);
    return Reply::of_integer(hash->insert_or_assign(args[2], args[3]).second);
  }
  if (name == "HLEN")
    return Reply::of_integer(hash == nullptr ? 0 : static_cast<std::int64_t>(hash->size()));
  if (name == "HGET" && args.size() == 3) {
    if (hash == nullptr || !hash->contains(args[2])) return Reply::of_nil();
    return Reply::of_bulk(hash->at(args[2]));
  }
  if (name == "HGETALL") {
    Reply reply{Reply::array};
    if (hash != nullptr) {
      for (const auto& [field, text] : *hash) {
        reply.items.push_back(Reply::of_bulk(field));
        reply.items.push_back(Reply::of_bulk(text));
      }
    }
    return reply;
  }
  if (name == "HDEL" && args.size() == 3) {
    if (hash == nullptr) return Reply::of_integer(0);
    const auto gone = static_cast<std::int64_t>(hash->erase(args[2]));
    if (hash->empty()) keys_.erase(args[1]);
    return Reply::of_integer(gone);
  }
  return Reply::of_error("ERR unknown command '" + args[0] + "'");
}

LuaRedis::Reply LuaRedis::run_sorted(const std::string& name, const Args& args) {
  using Sorted = std::map<std::string, double>;
  Value* value = find(args[1]);
  Sorted* set = value == nullptr ? nullptr : std::get_if<Sorted>(&value->data);
  if (value != nullptr && set == nullptr) return Reply::of_error(kWrongType);
  if (name == "ZADD" && args.size() == 4) {
    if (set == nullptr) set = &std::get<Sorted>((keys_[args[1]] = Value{Sorted{}, {}}).data);
    const auto score = static_cast<double>(to_number(args[2]));
    return Reply::of_integer(set->insert_or_assign(args[3], score).second);
  }
  if (name == "ZCARD")
    return Reply::of_integer(set == nullptr ? 0 : static_cast<std::int64_t>(set->size()));
  if (name == "ZREM" && args.size() == 3) {
    if (set == nullptr) return Reply::of_integer(0);
    const auto gone = static_cast<std::int64_t>(set->erase(args[2]));
    if (set->empty()) keys_.erase(args[1]);
    return Reply::of_integer(gone);
  }
  std::vector<std::pair<double, std::string>> order;
  if (set != nullptr)
    for (const auto& [member, score] : *set) order.emplace_back(score, member);
  std::sort(order.begin(), order.end());
  Reply reply{Reply::array};
  // ZRANGEBYSCORE key -inf MOST LIMIT 0 COUNT
  if (name == "ZRANGEBYSCORE" && args.size() == 7 && args[2] == "-inf" && args[5] == "0") {
    const auto most = static_cast<double>(to_number(args[3]));
    const auto count = static_cast<std::size_t>(to_number(args[6]));
    for (const auto& [score, member] : order) {
      if (score > most || reply.items.size() >= count) break;
      reply.items.push_back(Reply::of_bulk(member));
    }
    return reply;
  }
  // ZRANGE key 0 0 WITHSCORES
  if (name == "ZRANGE" && args.size() == 5 && args[2] == "0" && args[3] == "0") {
    if (order.empty()) return reply;
    reply.items.push_back(Reply::of_bulk(order[0].second));
    reply.items.push_back(Reply::of_bulk(number_text(order[0].first)));
    return reply;
  }
  return Reply::of_error("ERR unknown command '" + args[0] + "'");
}

}  // namespace weir::testing
