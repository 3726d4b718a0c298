// Clients that others wrote, against the gRPC door: grpc++, Python's grpcio, Go's
// grpc-go, h2load.

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "grpc/health/v1/health.pb.h"
#include "server/grpc/grpc_door.h"
#include "server/lane.h"
#include "server/tls/tls_transport.h"
#include "testing/test_certificate.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

constexpr auto kPatience = 60s;
constexpr const char* kMethod = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

// Lets `limit` requests of each value pass.
class CountingLimiter final : public guard::RateLimiter {
 public:
  bool decide(const guard::RateLimitAsk& ask, guard::RateLimitAnswer& answer,
              guard::RateLimitListener& listener, std::uint64_t ticket) override {
    {
      const std::lock_guard lock(mutex_);
      deadline_ = ask.deadline;
      answer.decision.verdict = Verdict::allowed;
      answer.decision.rung = Rung::store;
      for (const auto& descriptor : ask.descriptors) {
        auto& status = answer.statuses.emplace_back();
        status.over = ++counts_[std::string(descriptor.entries[0].value)] > limit;
        if (status.over) answer.decision.verdict = Verdict::limited;
      }
    }
    if (!later) return true;
    std::thread([answer, &listener, ticket] { listener.answered(ticket, answer); }).detach();
    return false;
  }
  void refuse_unread(guard::RateLimitAnswer& answer) override {
    answer.decision.verdict = Verdict::refused;
    answer.decision.reason = Reason::invalid_request;
  }

  std::atomic<std::uint64_t> limit = 1'000'000;
  std::atomic<bool> later = false;

  std::optional<Nanos> deadline() const {
    const std::lock_guard lock(mutex_);
    return deadline_;
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Nanos> deadline_;
  std::map<std::string, std::uint64_t> counts_;
};

RateLimitRequest request(const std::string& value) {
  RateLimitRequest out;
  out.set_domain("edge");
  auto& entry = *out.add_descriptors()->add_entries();
  entry.set_key("user");
  entry.set_value(value);
  return out;
}

class GrpcClients : public ::testing::Test {
 protected:
  GrpcClients() {
    folder = std::filesystem::temp_directory_path() /
             ("weir-grpc-" + std::to_string(::getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
  }
  ~GrpcClients() override {
    for (auto& lane : lanes) lane->stop();
    lanes.clear();
    std::filesystem::remove_all(folder);
  }

  void serve(const std::string& where = "127.0.0.1:0") {
    auto sockets = listen_on(*parse_address(where), 2);
    ASSERT_TRUE(sockets) << sockets.error().message;
    target = sockets->address.text();
    for (auto& socket : sockets->sockets) {
      auto& lane = lanes.emplace_back(std::make_unique<Lane>());
      lane->listen(std::move(socket),
                   grpc::make_grpc_door(*lane, {.limiter = &limiter,
                                                .ready = [this] { return ready.load(); },
                                                .limits = {},
                                                .metrics = &metrics}),
                   transport ? static_cast<Transport&>(*transport) : plain_transport());
      lane->start();
    }
  }

  template <class Request, class Response>
  static ::grpc::Status call(const std::shared_ptr<::grpc::Channel>& channel, const char* method,
                             const Request& asked, Response& response,
                             std::chrono::milliseconds timeout = kPatience,
                             grpc_compression_algorithm compression = GRPC_COMPRESS_NONE) {
    ::grpc::TemplatedGenericStub<Request, Response> stub(channel);
    ::grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    context.set_compression_algorithm(compression);
    std::promise<::grpc::Status> done;
    stub.UnaryCall(&context, method, ::grpc::StubOptions(), &asked, &response,
                   [&done](::grpc::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }

  std::shared_ptr<::grpc::Channel> channel(const std::shared_ptr<::grpc::ChannelCredentials>&
                                               credentials = ::grpc::InsecureChannelCredentials()) {
    static std::atomic<int> number = 0;
    ::grpc::ChannelArguments arguments;
    arguments.SetInt("weir.test.channel", ++number);  // else channels share their connection
    return ::grpc::CreateCustomChannel(target, credentials, arguments);
  }

  // Runs a program to its end; what it printed, and whether it succeeded.
  static std::pair<std::string, bool> run(const std::string& command) {
    std::string out;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
      out.append(buffer.data(), got);
    }
    return {out, ::pclose(pipe) == 0};
  }

  std::filesystem::path folder;
  CountingLimiter limiter;
  std::atomic<bool> ready = true;
  grpc::GrpcMetrics metrics;
  std::unique_ptr<TlsTransport> transport;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::string target;
};

// grpc++ in this process.
class GrpcppClient : public GrpcClients {
 protected:
  void SetUp() override {
#if defined(WEIR_SANITIZE_THREAD)
    GTEST_SKIP() << "libgrpc locks in ways that the thread sanitizer cannot see";
#endif
  }
};

TEST_F(GrpcppClient, IsAnsweredEveryCall) {
  serve();
  limiter.limit = 500;
  std::atomic<int> ok = 0;
  std::atomic<int> over = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&, its = channel()] {
      for (int j = 0; j < 100; ++j) {
        RateLimitResponse response;
        const auto status = call(its, kMethod, request("one"), response);
        EXPECT_TRUE(status.ok()) << status.error_message();
        ASSERT_EQ(response.statuses_size(), 1);
        ++(response.overall_code() == RateLimitResponse::OK ? ok : over);
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(ok, 500);
  EXPECT_EQ(over, 300);
}

TEST_F(GrpcppClient, IsAnsweredByADecisionThatComesLater) {
  serve();
  limiter.later = true;
  const auto its = channel();
  for (int i = 0; i < 100; ++i) {
    RateLimitResponse response;
    const auto status = call(its, kMethod, request("one"), response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  }
}

TEST_F(GrpcppClient, ItsDeadlineReachesTheLimiter) {
  serve();
  RateLimitResponse response;
  ASSERT_TRUE(call(channel(), kMethod, request("one"), response, 10s).ok());
  ASSERT_TRUE(limiter.deadline());
  EXPECT_GT(*limiter.deadline(), 5s);
  EXPECT_LE(*limiter.deadline(), 10s);
}

TEST_F(GrpcppClient, ReadsEveryStatusCode) {
  serve();
  const auto its = channel();
  RateLimitResponse response;
  EXPECT_EQ(call(its, "/no.Such/Method", request("x"), response).error_code(),
            ::grpc::StatusCode::UNIMPLEMENTED);
  const auto squeezed =
      call(its, kMethod, request(std::string(5000, 'x')), response, kPatience, GRPC_COMPRESS_GZIP);
  EXPECT_EQ(squeezed.error_code(), ::grpc::StatusCode::UNIMPLEMENTED) << squeezed.error_message();
  // And the connection goes on.
  EXPECT_TRUE(call(its, kMethod, request("x"), response).ok());
}

TEST_F(GrpcppClient, ItsLongMessagesAreReadAndTooLongOnesRefused) {
  serve();
  const auto its = channel();
  RateLimitResponse response;
  ASSERT_TRUE(call(its, kMethod, request(std::string(3U << 20U, 'x')), response).ok());
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  const auto status = call(its, kMethod, request(std::string(5U << 20U, 'x')), response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
}

TEST_F(GrpcppClient, ItsHealthCheckAndWatchFollowReadiness) {
  serve();
  const auto its = channel();
  HealthCheckResponse response;
  HealthCheckRequest asked;
  asked.set_service("ratelimit");
  ASSERT_TRUE(call(its, "/grpc.health.v1.Health/Check", asked, response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  asked.set_service("nobody");
  EXPECT_EQ(call(its, "/grpc.health.v1.Health/Check", asked, response).error_code(),
            ::grpc::StatusCode::NOT_FOUND);

  ::grpc::TemplatedGenericStub<HealthCheckRequest, HealthCheckResponse> stub(its);
  ::grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  ::grpc::CompletionQueue queue;
  const auto watch = stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  watch->StartCall(nullptr);
  ASSERT_TRUE(next());
  watch->WriteLast(HealthCheckRequest(), ::grpc::WriteOptions(), nullptr);
  ASSERT_TRUE(next());
  for (const bool now : {true, false, true}) {
    ready = now;
    watch->Read(&response, nullptr);
    ASSERT_TRUE(next());
    EXPECT_EQ(response.status(),
              now ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  }
  context.TryCancel();
  ::grpc::Status status;
  watch->Finish(&status, nullptr);
  next();
  EXPECT_EQ(status.error_code(), ::grpc::StatusCode::CANCELLED);
}

TEST_F(GrpcppClient, SpeaksTlsWithCertificatesOnBothSides) {
  const testing::TestCertificate root("root");
  const testing::TestCertificate own("client", &root);
  const auto cert = folder / "cert.pem";
  const auto key = folder / "key.pem";
  root.write(cert, key);
  own.write(folder / "client.pem", folder / "client.key");
  auto opened = TlsTransport::open(
      {.cert_file = cert, .key_file = key, .client_ca_file = cert, .alpn = {"h2"}}, Clock::real());
  ASSERT_TRUE(opened) << opened.error().message;
  transport = std::move(*opened);
  serve();
  const auto text = [](const std::filesystem::path& file) {
    std::ostringstream out;
    out << std::ifstream(file).rdbuf();
    return out.str();
  };
  const auto secure = channel(::grpc::SslCredentials(
      {text(cert), text(folder / "client.key"), text(folder / "client.pem")}));
  RateLimitResponse response;
  for (int i = 0; i < 50; ++i) {
    const auto status = call(secure, kMethod, request(std::string(20'000, 'x')), response);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  const auto anonymous = channel(::grpc::SslCredentials({text(cert), "", ""}));
  EXPECT_EQ(call(anonymous, kMethod, request("x"), response, 5s).error_code(),
            ::grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcppClient, SpeaksThroughAUnixSocket) {
  serve("unix:" + (folder / "weir.sock").string());
  RateLimitResponse response;
  const auto status = call(channel(), kMethod, request("one"), response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(GrpcppClient, ADrainLosesNoCallThatWasTaken) {
  serve();
  limiter.later = true;
  std::atomic<bool> draining = false;
  std::atomic<int> answered = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&, its = channel()] {
      for (;;) {
        RateLimitResponse response;
        const auto status = call(its, kMethod, request("one"), response);
        if (status.ok()) {
          ++answered;
          continue;
        }
        // Nobody listens any more: only that may end a call, and only once we are leaving.
        EXPECT_EQ(status.error_code(), ::grpc::StatusCode::UNAVAILABLE);
        EXPECT_TRUE(draining) << status.error_message();
        EXPECT_THAT(status.error_message(), ::testing::Not(::testing::HasSubstr("reset")));
        return;
      }
    });
  }
  while (answered < 200) std::this_thread::yield();
  draining = true;
  std::vector<std::promise<void>> drained(lanes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lanes[i]->post([&, i] { lanes[i]->drain([&, i] { drained[i].set_value(); }); });
  }
  for (auto& each : drained) {
    EXPECT_EQ(each.get_future().wait_for(kPatience), std::future_status::ready);
  }
  for (auto& caller : callers) caller.join();
}

TEST_F(GrpcClients, GrpcioIsAnsweredEveryCall) {
  if (!run("/usr/bin/python3 -c 'import grpc'").second) {
    GTEST_SKIP() << "python3-grpcio is not installed";
  }
  serve();
  limiter.limit = 200;
  const auto [out, well] =
      run("/usr/bin/python3 " WEIR_TEST_FOLDER "/grpcio_client.py " + target + " 1000");
  EXPECT_TRUE(well);
  EXPECT_EQ(out, "ok 400 over 600 errors 0\n");
}

TEST_F(GrpcClients, GrpcGoIsAnsweredEveryCall) {
  if (!run("go version").second) GTEST_SKIP() << "go is not installed";
  const std::string client = folder / "grpcgo_client";
  if (!run("cd " WEIR_TEST_FOLDER "/grpcgo_client && go build -o " + client + " . 2>&1").second) {
    GTEST_SKIP() << "grpc-go cannot be had here";
  }
  serve();
  limiter.limit = 200;
  const auto [out, well] = run(client + " " + target + " 1000");
  EXPECT_TRUE(well);
  EXPECT_EQ(out, "ok 400 over 600 errors 0\n");
}

TEST_F(GrpcClients, H2loadIsAnsweredEveryCall) {
  if (std::string(WEIR_H2LOAD).empty()) GTEST_SKIP() << "h2load is not installed (nghttp2-client)";
  serve();
  const auto body = folder / "body.bin";
  const std::string message = request("192.0.2.7").SerializeAsString();
  std::ofstream(body, std::ios::binary)
      << std::string("\0\0\0\0", 4) << static_cast<char>(message.size()) << message;
  const auto [out, well] =
      run(WEIR_H2LOAD " -n 50000 -c 8 -m 100 -t 1 -d " + body.string() +
          " -H 'content-type: application/grpc' -H 'te: trailers' http://" + target + kMethod);
  EXPECT_TRUE(well);
  EXPECT_THAT(out, ::testing::HasSubstr("50000 succeeded, 0 failed, 0 errored"));
  EXPECT_THAT(out, ::testing::HasSubstr("50000 2xx, 0 3xx, 0 4xx, 0 5xx"));
  std::string text;
  render::Exposition exposition(text);
  metrics.write(exposition);
  EXPECT_THAT(text, ::testing::HasSubstr("weir_grpc_calls_total{code=\"0\"} 50000\n"));
}

TEST_F(GrpcClients, EveryMetricIsExplained) {
  serve();
  std::string text;
  render::Exposition exposition(text);
  metrics.write(exposition);
  std::ostringstream page;
  page << std::ifstream(WEIR_TEST_FOLDER "/../../docs/reference/metrics.md").rdbuf();
  std::istringstream lines(text);
  int names = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# TYPE ")) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_THAT(page.str(), ::testing::HasSubstr("`" + name));
    ++names;
  }
  EXPECT_EQ(names, 3);
}

}  // namespace
}  // namespace weir::server
