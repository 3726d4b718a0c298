#include "ledger/postgres_session.h"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

namespace weir::ledger {
namespace {

// Types of parameters, by their numbers in PostgreSQL's catalogue.
constexpr Oid kBytes = 17;
constexpr Oid kNumber = 20;
constexpr Oid kText = 25;

struct Clear {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultHandle = std::unique_ptr<PGresult, Clear>;

std::array<char, 8> big_endian(std::int64_t value) {
  std::array<char, 8> out{};
  const auto bits = static_cast<std::uint64_t>(value);
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(bits >> (56 - 8 * i));
  return out;
}

std::string one_line(const char* text) {
  std::string out = text != nullptr ? text : "";
  while (!out.empty() && out.back() == '\n') out.pop_back();
  for (char& c : out) {
    if (c == '\n') c = ' ';
  }
  return out;
}

// What an error means for whoever asked, by the class of its code: the content is refused, somebody
// or something is in the way, or it must be put right first.
ErrorCode code_of(const char* state) {
  if (state == nullptr) return ErrorCode::unavailable;  // the connection is gone
  const std::string_view kind(state, std::min<std::size_t>(2, std::strlen(state)));
  // data, integrity, and what is too much of it: an index takes no row of more than 2.7 kB
  for (const char* content : {"22", "23", "54"}) {
    if (kind == content) return ErrorCode::internal;
  }
  // connection, transaction state, rolled back, resources, operator, system
  for (const char* passing : {"08", "25", "40", "53", "55", "57", "58"}) {
    if (kind == passing) return ErrorCode::unavailable;
  }
  return ErrorCode::failed_precondition;
}

MonoTime mono_now() {
  return std::chrono::steady_clock::now();
}

// So many statements are sent together at most: some 100 kB.
constexpr std::size_t kAtOnce = 512;

// How long nobody looks whether to stop.
constexpr Nanos kLookEvery = std::chrono::milliseconds(100);

// What a statement is given, as it goes over the wire.
class Parameters {
 public:
  explicit Parameters(std::initializer_list<SqlValue> values) {
    for (const SqlValue& value : values) {
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        const auto bytes = big_endian(*number);
        raw_.emplace_back(bytes.data(), bytes.size());
      } else if (const auto* bytes = std::get_if<std::string_view>(&value)) {
        raw_.emplace_back(*bytes);
      } else {
        raw_.emplace_back(std::get<SqlText>(value).text);
      }
    }
  }

  // As PQsendQueryPrepared().
  int send(PGconn* connection, const char* statement) const {
    std::vector<const char*> data;
    std::vector<int> lengths;
    for (const std::string& each : raw_) {
      data.push_back(each.c_str());  // never null, which would be NULL
      lengths.push_back(static_cast<int>(each.size()));
    }
    const std::vector<int> binary(raw_.size(), 1);
    return PQsendQueryPrepared(connection, statement, static_cast<int>(raw_.size()), data.data(),
                               lengths.data(), binary.data(), 1);
  }

 private:
  std::vector<std::string> raw_;
};

// Until when a server is waited for, and who may end that.
class Patience {
 public:
  Patience(Nanos most, const StopFlag& stop) : stop_(stop), until_(mono_now() + most) {}

  // False: it is over. Else something may have happened to the socket, which waits for `events`.
  bool wait(int socket, short events) const {
    if (stop_ && stop_->load(std::memory_order_relaxed)) return false;
    const Nanos left = until_ - mono_now();
    if (left <= Nanos{0}) return false;
    pollfd one{.fd = socket, .events = events, .revents = 0};
    const auto most =
        std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kLookEvery)).count();
    (void)::poll(&one, 1, static_cast<int>(most));
    return true;
  }

 private:
  const StopFlag& stop_;
  MonoTime until_;
};

Error no_answer() {
  return {ErrorCode::unavailable, "ledger: PostgreSQL: the server does not answer"};
}

class Row final : public SqlRow {
 public:
  Row(const PGresult* result, int row) : result_(result), row_(row) {}
  // Binary, as asked for: 4 or 8 bytes, big endian.
  std::int64_t number(int column) const override {
    const std::string_view raw = bytes(column);
    std::int64_t value = !raw.empty() && (raw[0] & 0x80) != 0 ? -1 : 0;
    for (const char c : raw) value = value * 256 + static_cast<unsigned char>(c);
    return value;
  }
  std::string_view bytes(int column) const override {
    return {PQgetvalue(result_, row_, column),
            static_cast<std::size_t>(PQgetlength(result_, row_, column))};
  }

 private:
  const PGresult* result_;
  int row_;
};

class PostgresSession final : public SqlSession {
 public:
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  using Connection = std::unique_ptr<PGconn, Finish>;
  PostgresSession(Connection connection, const LedgerOptions& options)
      : connection_(std::move(connection)), patience_(options.patience), stop_(options.stop) {}

  Dialect dialect() const override { return Dialect::postgresql; }

  Result<void> run(const char* sql, std::initializer_list<SqlValue> values,
                   const std::function<void(const SqlRow&)>& row) override {
    if (auto heard = hear(); !heard) return heard;
    auto name = prepared(sql, values);
    if (!name) return name.error();
    const Parameters parameters(values);
    const auto result = answer([&] { return parameters.send(connection_.get(), name->c_str()); });
    if (!result) return result.error();
    if (auto fine = check(result->get()); !fine) return fine;
    tell(result->get(), row);
    return {};
  }

  Result<void> run_by_the_way(const char* sql, std::initializer_list<SqlValue> values,
                              const std::function<void(const SqlRow&)>& row) override {
    if (auto name = prepared(sql, values); !name) return name.error();
    waiting_.push_back({sql, Parameters(values), row});
    return waiting_.size() < kAtOnce ? Result<void>() : hear();
  }

  // Sends together what waits, and hears what became of each.
  Result<void> hear() override {
    if (waiting_.empty()) return {};
    const auto waiting = std::exchange(waiting_, {});
    PGconn* const connection = connection_.get();
    if (given_up_) return no_answer();
    if (PQenterPipelineMode(connection) == 0) return gone();
    for (const Waiting& each : waiting) {
      if (each.parameters.send(connection, statements_.at(each.sql).c_str()) == 0)
        return give_up(gone());
    }
    if (PQpipelineSync(connection) == 0) return give_up(gone());
    // The first that failed says why; those behind it were passed over, or the connection was lost
    // for the same reason.
    Result<void> done;
    for (std::size_t at = 0;;) {
      auto result = next_result();
      if (!result) return give_up(done ? result.error() : done.error());
      if (!*result) {  // the end of one statement's
        ++at;
        if (PQstatus(connection) == CONNECTION_OK) continue;
        return give_up(done ? gone() : done.error());
      }
      if (PQresultStatus(result->get()) == PGRES_PIPELINE_SYNC) break;
      if (done) done = check(result->get());
      if (done && at < waiting.size()) tell(result->get(), waiting[at].row);
    }
    if (PQexitPipelineMode(connection) == 0) return give_up(gone());
    return done;
  }

  Result<void> script(const char* sql) override {
    if (auto heard = hear(); !heard) return heard;
    const auto result = answer([&] { return PQsendQuery(connection_.get(), sql); });
    return result ? check(result->get()) : result.error();
  }
  Result<void> begin() override { return script("BEGIN"); }
  Result<void> commit() override {
    if (auto heard = hear(); !heard) return heard;
    const auto result = answer([&] { return PQsendQuery(connection_.get(), "COMMIT"); });
    if (!result) return result.error();
    if (auto fine = check(result->get()); !fine) return fine;
    // Of a transaction that had failed it says so without an error.
    if (std::string_view(PQcmdStatus(result->get())) != "COMMIT")
      return Error{ErrorCode::unavailable, "ledger: PostgreSQL rolled the transaction back"};
    return {};
  }
  void rollback() noexcept override {
    waiting_.clear();
    (void)script("ROLLBACK");
  }

  // What every session wants of its server.
  Result<void> greet() {
    // Binary results and time limits are the session's; schema and role come with the URL. A
    // server that is only slow ends a statement itself, and says so before nobody listens.
    const auto slow =
        std::chrono::duration_cast<std::chrono::milliseconds>(patience_ * 5 / 6).count();
    const std::string settings =
        "SET client_encoding = 'UTF8'; SET synchronous_commit = on;"
        "SET idle_in_transaction_session_timeout = '60s'; SET lock_timeout = '10s';"
        "SET statement_timeout = " +
        std::to_string(slow);
    return script(settings.c_str());
  }

 private:
  struct Waiting {
    const char* sql;
    Parameters parameters;
    std::function<void(const SqlRow&)> row;
  };

  Result<void> check(const PGresult* result) const {
    const ExecStatusType status = PQresultStatus(result);
    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return {};
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const bool gone = PQstatus(connection_.get()) != CONNECTION_OK;
    std::string words = one_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
    if (words.empty()) words = one_line(PQerrorMessage(connection_.get()));
    return Error{gone ? ErrorCode::unavailable : code_of(state),
                 "ledger: PostgreSQL: " + words +
                     (state != nullptr ? " (" + std::string(state) + ")" : std::string())};
  }

  static void tell(const PGresult* result, const std::function<void(const SqlRow&)>& row) {
    for (int i = 0; row && i < PQntuples(result); ++i) row(Row(result, i));
  }

  // Nobody can tell any more which answer is whose.
  Error give_up(Error error) {
    given_up_ = true;
    return error;
  }

  // Of several statements that were sent together; empty: one of them has no more.
  Result<ResultHandle> next_result() {
    PGconn* const connection = connection_.get();
    const Patience patience(patience_, stop_);
    for (;;) {
      const int unsent = PQflush(connection);
      if (unsent < 0) return gone();
      if (PQisBusy(connection) == 0) return ResultHandle(PQgetResult(connection));
      const auto events = static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN);
      if (!patience.wait(PQsocket(connection), events)) return no_answer();
      if (PQconsumeInput(connection) == 0) return gone();
    }
  }

  // What the server says to what `send` sends: the last of its results.
  template <class Send>
  Result<ResultHandle> answer(Send send) {
    PGconn* const connection = connection_.get();
    if (given_up_) return no_answer();
    if (send() == 0) return gone();
    const Patience patience(patience_, stop_);
    ResultHandle last;
    for (;;) {
      const int unsent = PQflush(connection);
      if (unsent < 0) return gone();
      while (unsent == 0 && PQisBusy(connection) == 0) {
        ResultHandle next(PQgetResult(connection));
        if (!next) return last;
        last = std::move(next);
      }
      const auto events = static_cast<short>(unsent > 0 ? POLLIN | POLLOUT : POLLIN);
      if (!patience.wait(PQsocket(connection), events)) {
        given_up_ = true;
        return no_answer();
      }
      if (PQconsumeInput(connection) == 0) return gone();
    }
  }

  Error gone() const {
    return {ErrorCode::unavailable,
            "ledger: PostgreSQL: " + one_line(PQerrorMessage(connection_.get()))};
  }

  Result<std::string> prepared(const char* sql, std::initializer_list<SqlValue> values) {
    const auto found = statements_.find(sql);
    if (found != statements_.end()) return found->second;
    std::vector<Oid> types;
    for (const SqlValue& value : values) {
      types.push_back(std::holds_alternative<std::int64_t>(value)       ? kNumber
                      : std::holds_alternative<std::string_view>(value) ? kBytes
                                                                        : kText);
    }
    std::string name = "weir" + std::to_string(statements_.size());
    const auto result = answer([&] {
      return PQsendPrepare(connection_.get(), name.c_str(), sql, static_cast<int>(types.size()),
                           types.data());
    });
    if (!result) return result.error();
    if (auto fine = check(result->get()); !fine) return fine.error();
    return statements_.emplace(sql, std::move(name)).first->second;
  }

  Connection connection_;
  const Nanos patience_;
  const StopFlag stop_;
  bool given_up_ = false;
  std::vector<Waiting> waiting_;  // to be sent together
  std::map<const char*, std::string> statements_;
};

// What the URL says, or what stands for it.
Nanos connect_timeout(PGconn* connection) {
  constexpr Nanos kUnsaid = std::chrono::seconds(5);
  struct Free {
    void operator()(PQconninfoOption* options) const { PQconninfoFree(options); }
  };
  const std::unique_ptr<PQconninfoOption, Free> options(PQconninfo(connection));
  for (const PQconninfoOption* one = options.get(); one != nullptr && one->keyword != nullptr;
       ++one) {
    if (std::string_view(one->keyword) != "connect_timeout" || one->val == nullptr) continue;
    const std::string_view text(one->val);
    int seconds = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (read.ec == std::errc() && seconds > 0) return std::chrono::seconds(seconds);
  }
  return kUnsaid;
}

Result<void> connect(PGconn* connection, const StopFlag& stop) {
  const Patience patience(connect_timeout(connection), stop);
  PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
  if (PQstatus(connection) == CONNECTION_BAD) wants = PGRES_POLLING_FAILED;
  while (wants != PGRES_POLLING_OK && wants != PGRES_POLLING_FAILED) {
    const short events = wants == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    pollfd now{.fd = PQsocket(connection), .events = events, .revents = 0};
    if (!patience.wait(now.fd, events)) return no_answer();
    if (::poll(&now, 1, 0) > 0) wants = PQconnectPoll(connection);
  }
  if (wants == PGRES_POLLING_OK && PQsetnonblocking(connection, 1) == 0) return {};
  return Error{ErrorCode::unavailable, "ledger: " + one_line(PQerrorMessage(connection))};
}

}  // namespace

Result<std::unique_ptr<SqlSession>> open_postgres_session(const std::string& url,
                                                          const LedgerOptions& options) {
  // What stands behind holds before what stands in front: the URL has the last word.
  const std::array keys = {"connect_timeout",
                           "keepalives_idle",
                           "keepalives_interval",
                           "keepalives_count",
                           "tcp_user_timeout",
                           "application_name",
                           "dbname",
                           static_cast<const char*>(nullptr)};
  const std::array values = {"5",     "5",    "3",         "3",
                             "15000", "weir", url.c_str(), static_cast<const char*>(nullptr)};
  PostgresSession::Connection connection(PQconnectStartParams(keys.data(), values.data(), 1));
  if (!connection) return Error{ErrorCode::unavailable, "ledger: memory is exhausted"};
  if (auto connected = connect(connection.get(), options.stop); !connected)
    return connected.error();
  // What a server says on its way out is no business of our standard error.
  PQsetNoticeProcessor(
      connection.get(), [](void*, const char*) {}, nullptr);
  auto session = std::make_unique<PostgresSession>(std::move(connection), options);
  if (auto greeted = session->greet(); !greeted) return greeted.error();
  return std::unique_ptr<SqlSession>(std::move(session));
}

}  // namespace weir::ledger
