#include "server/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "server/listener.h"
#include "server/serve/served_process.h"
#include "testing/test_certificate.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kPolicy = R"(
inputs: [user]
unmatched: allow
routes:
  login:
    match: {method: POST, path: /login}
    limits: ["5 per hour by ip"]
    protects: security
  search:
    limits: ["100 per hour by user"]
    protects: capacity
    ceiling: 50 per second
)";

const std::string kLogin = R"({"route":"login","descriptors":{"ip":"192.0.2.7"}})";

// What a shell command writes.
std::string shell(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  std::array<char, 4096> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), got);
  }
  ::pclose(pipe);
  return text;
}

TEST(Serve, AnswersGrpcOnItsOwnPort) {
  ServedProcess weir(kPolicy, [](ServeOptions& options) { options.grpc = "127.0.0.1:0"; });
  ASSERT_TRUE(weir.ready()) << weir.err();
  // One empty message; SERVING comes back as field 1 with value 1.
  const std::string asked =
      "printf '\\0\\0\\0\\0\\0' | curl -s --http2-prior-knowledge -H 'te: trailers' "
      "-H 'content-type: application/grpc' --data-binary @- http://127.0.0.1:" +
      std::to_string(weir.grpc()) + "/grpc.health.v1.Health/Check";
  EXPECT_EQ(shell(asked), std::string("\0\0\0\0\2\x08\1", 7));
  EXPECT_THAT(shell("curl -s http://127.0.0.1:" + std::to_string(weir.admin()) + "/metrics"),
              HasSubstr("weir_grpc_calls_total{code=\"0\"} 1\n"));
}

class ServeTlsFiles {
 public:
  explicit ServeTlsFiles(const testing::TestCertificate& root) : folder_(::testing::TempDir()) {
    folder_ /= "weir_serve_tls_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    root.write(cert(), key());
  }
  ServeTlsFiles(const ServeTlsFiles&) = delete;
  ServeTlsFiles& operator=(const ServeTlsFiles&) = delete;
  ~ServeTlsFiles() { std::filesystem::remove_all(folder_); }
  std::string cert() const { return folder_ / "cert.pem"; }
  std::string key() const { return folder_ / "key.pem"; }

 private:
  std::filesystem::path folder_;
};

TEST(Serve, SpeaksTlsWhereItIsTold) {
  const testing::TestCertificate root("weir");
  const ServeTlsFiles files(root);
  ServedProcess weir(kPolicy, [&](ServeOptions& options) {
    options.grpc = "127.0.0.1:0";
    options.tls = {.cert_file = files.cert(), .key_file = files.key()};
  });
  ASSERT_TRUE(weir.ready()) << weir.err();
  const std::string out = weir.out();
  EXPECT_THAT(shell(out.substr(out.find("  curl ") + 2)), HasSubstr("\"verdict\":\"allowed\""));
  const auto get = [&](const std::string& how, std::uint16_t port, const std::string& path) {
    return shell("curl -s -o - -w ' %{http_version} %{http_code}' --cacert " + files.cert() + " " +
                 how + " https://127.0.0.1:" + std::to_string(port) + path);
  };
  EXPECT_THAT(get("", weir.http(), "/nowhere"), HasSubstr(" 1.1 404"));
  EXPECT_THAT(get("", weir.grpc(), "/nowhere"), HasSubstr(" 2 405"));
  // The admin door stays as it was.
  EXPECT_THAT(shell("curl -s http://127.0.0.1:" + std::to_string(weir.admin()) + "/healthz"),
              HasSubstr("ok"));
}

TEST(Serve, SaysWhichTlsFileItCannotUse) {
  ServedProcess weir(kPolicy, [](ServeOptions& options) {
    options.tls = {.cert_file = "/nowhere/cert.pem", .key_file = "/nowhere/key.pem"};
  });
  EXPECT_EQ(weir.wait(), 2);
  EXPECT_THAT(weir.err(), HasSubstr("'/nowhere/cert.pem'"));
}

TEST(Serve, TheLineItPrintsCanBeTyped) {
  ServedProcess weir(kPolicy);
  const std::string out = weir.out();
  ASSERT_TRUE(weir.ready()) << weir.err();
  EXPECT_THAT(out, HasSubstr("weir.yaml, 2 routes, 2 lanes\n"));
  const std::string line = out.substr(out.find("  curl ") + 2);
  const std::string answer = shell(line);
  EXPECT_THAT(answer, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(answer, HasSubstr("\"verdict\":\"allowed\""));
  EXPECT_THAT(answer, HasSubstr("\"remaining\":4"));
}

TEST(Serve, ServesOnUnixSockets) {
  ServedProcess weir(kPolicy, [](ServeOptions& options) {
    const std::string folder = options.policy_path.substr(0, options.policy_path.rfind('/'));
    options.http = "unix:" + folder + "/http.sock";
    options.admin = "unix:" + folder + "/admin.sock";
  });
  ASSERT_TRUE(weir.ready()) << weir.err();
  EXPECT_THAT(shell(weir.out().substr(weir.out().find("  curl ") + 2)),
              HasSubstr("HTTP/1.1 200 OK"));
  TestClient admin(weir.path("admin.sock"));
  EXPECT_EQ(admin.ask("GET", "/readyz").value_or(TestClient::Answer{}).status, 200);
  weir.signal(SIGINT);
  EXPECT_EQ(weir.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(weir.path("http.sock")));
}

TEST(Serve, DecidesByRouteAndByRequest) {
  ServedProcess weir(kPolicy);
  for (int i = 4; i >= 0; --i) {
    const auto answer = weir.http("POST", "/v1/check", kLogin);
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, HasSubstr("\"remaining\":" + std::to_string(i)));
  }
  const auto limited = weir.http("POST", "/v1/check", kLogin);
  EXPECT_EQ(limited.status, 429);
  EXPECT_THAT(limited.body, HasSubstr("\"verdict\":\"limited\""));
  EXPECT_TRUE(limited.has("Content-Type: application/problem+json"));
  EXPECT_TRUE(limited.has("Cache-Control: no-store"));
  EXPECT_GE(std::stoi(limited.header("Retry-After")), 1);

  // The same counter, found by what the request is.
  const auto matched = weir.http(
      "POST", "/v1/check",
      R"({"request":{"method":"POST","path":"/x/../login?a","peer":"192.0.2.7:5","headers":{}}})");
  EXPECT_EQ(matched.status, 429);
  const auto unmatched =
      weir.http("POST", "/v1/check", R"({"request":{"method":"GET","path":"/other"}})");
  EXPECT_EQ(unmatched.status, 200);
  EXPECT_THAT(unmatched.body, HasSubstr("\"reason\":\"no_limit\""));
}

TEST(Serve, SaysWhatIsWrongWithARequest) {
  ServedProcess weir(kPolicy);
  const std::vector<std::array<std::string, 2>> malformed = {
      {R"("method":"G T","path":"/a")", "the method is no token of at most 32 bytes"},
      {R"("method":"GET","path":"/%zz")", "the target holds no path that can be matched"},
      {R"("method":"GET","path":"api")", "the target holds no path that can be matched"},
      {R"("method":"GET","path":"/a","peer":"nonsense")", "the peer is no address"}};
  for (const auto& [members, sentence] : malformed) {
    const auto answer = weir.http("POST", "/v1/check", "{\"request\":{" + members + "}}");
    EXPECT_EQ(answer.status, 400) << members;
    EXPECT_THAT(answer.body, HasSubstr("\"detail\":\"" + sentence + "\"")) << members;
  }
  const auto unknown = weir.http("POST", "/v1/check", R"({"route":"nowhere"})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("unknown_route"));
  EXPECT_THAT(unknown.body, ::testing::Not(HasSubstr("nearest"))) << "nothing is near";
  const auto misspelt = weir.http("POST", "/v1/check", R"({"route":"logni"})");
  EXPECT_EQ(misspelt.status, 404);
  EXPECT_THAT(misspelt.body, HasSubstr(R"(no such route; the nearest is \"login\")"));
  EXPECT_THAT(misspelt.body, HasSubstr(R"("nearest":"login")"));
  const auto field = weir.http("POST", "/v1/check", R"({"route":"login","cost":-1})");
  EXPECT_EQ(field.status, 400);
  EXPECT_THAT(field.body, HasSubstr("cost must be a whole number"));
  const auto method = weir.http("GET", "/v1/check");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("Allow"), "POST");
  const auto path = weir.http("GET", "/");
  EXPECT_EQ(path.status, 404);
  EXPECT_TRUE(path.has("Content-Type: application/problem+json"));
}

TEST(Serve, ControlBytesInValuesReachNoHeaderAndNoLogLine) {
  ServedProcess weir(kPolicy);
  for (const char* value : {R"(a\r\nSet-Cookie: x=1\r\n\r\n)", R"(\u0000)", R"(\u001b[2J)", "a b",
                            "\xf0\x9f\x98\x80", "\xff\xfe", R"(a\nlevel=error event=fake)"}) {
    const std::string body =
        R"({"route":"search","descriptors":{"user":")" + std::string(value) + "\"}}";
    const auto answer = weir.http("POST", "/v1/check", body);
    EXPECT_EQ(answer.status, 200) << value;
    EXPECT_THAT(answer.head, Not(HasSubstr("Set-Cookie")));
    // A counter of its own: nothing was cut off or run together.
    EXPECT_THAT(answer.body, HasSubstr("\"remaining\":99")) << value;
  }
  EXPECT_THAT(weir.err(), Not(HasSubstr("fake")));
  EXPECT_THAT(weir.admin("GET", "/metrics").body, Not(HasSubstr("fake")));
}

TEST(Serve, TakesLongValuesUpToItsBodyBound) {
  ServedProcess weir(kPolicy);
  const auto with = [&](std::size_t bytes) {
    return weir.http(
        "POST", "/v1/check",
        R"({"route":"search","descriptors":{"user":")" + std::string(bytes, 'u') + "\"}}");
  };
  EXPECT_EQ(with(64 * 1024).status, 200);
  EXPECT_EQ(with(64 * 1024 + 1).status, 200);
  EXPECT_THAT(with(64 * 1024).body, HasSubstr("\"remaining\":98"));
  EXPECT_EQ(with(1024 * 1024).status, 413);
}

TEST(Serve, MalformedBytesGetAnAnswerOrTheEndAndNeverACrash) {
  ServedProcess weir(kPolicy);
  const std::string check = "POST /v1/check HTTP/1.1\r\nHost: a\r\n";
  const std::string inputs[] = {
      "\r\n\r\n\r\n",
      std::string(100, '\0'),
      std::string("\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 11),
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "get\r\n\r\n",
      check + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      check + "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
      check + "Content-Length: 99999999999999999999\r\n\r\n",
      check + "X: " + std::string(100'000, 'x') + "\r\n\r\n",
      "GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n",
      check + "Content-Length: 2\r\n\r\n{}",
      check + "Content-Length: 4\r\n\r\n[[[[",
      check + "Content-Length: 3\r\n\r\n\"\\u",
  };
  for (const std::string& input : inputs) {
    TestClient client(weir.http());
    client.send(input);
    ::shutdown(client.fd(), SHUT_WR);
    const std::string answer = client.rest();
    EXPECT_THAT(answer, AnyOf(::testing::IsEmpty(), ::testing::StartsWith("HTTP/1.1 4"),
                              ::testing::StartsWith("HTTP/1.1 505")))
        << input.substr(0, 60);
  }
  EXPECT_EQ(weir.http("POST", "/v1/check", kLogin).status, 200);
  // None of it is worth a line: a client must not fill the disk.
  EXPECT_LE(std::ranges::count(weir.err(), '\n'), 1) << weir.err();
}

TEST(Serve, AdminPagesSayHowItIs) {
  ServedProcess weir(kPolicy);
  EXPECT_EQ(weir.admin("GET", "/healthz").status, 200);
  const auto ready = weir.admin("GET", "/readyz");
  EXPECT_EQ(ready.status, 200);
  EXPECT_EQ(ready.body, "{\"ready\":true,\"degraded\":false,\"generation\":1}\n");
  const auto policy = weir.admin("GET", "/policy");
  EXPECT_THAT(policy.body, HasSubstr("\"routes\":[\"login\",\"search\"]"));
  EXPECT_THAT(policy.body, HasSubstr("\"store\":\"memory:\""));
  weir.http("POST", "/v1/check", kLogin);
  const auto metrics = weir.admin("GET", "/metrics");
  EXPECT_TRUE(metrics.has("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(
      metrics.body,
      HasSubstr("weir_decisions_total{route=\"login\",verdict=\"allowed\",rung=\"store\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("weir_policy_generation 1\n"));
  EXPECT_EQ(weir.admin("GET", "/nothing").status, 404);
  EXPECT_EQ(weir.admin("PUT", "/metrics").header("Allow"), "GET, HEAD");
  TestClient head(weir.admin());
  head.send(
      "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: "
      "localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head.rest(), ::testing::EndsWith("\r\n\r\nok\n"));
}

TEST(Serve, AdminExplainsThePolicyInForce) {
  ServedProcess weir(kPolicy);
  const auto text = weir.admin("GET", "/explain?route=login");
  EXPECT_EQ(text.status, 200);
  EXPECT_TRUE(text.has("Content-Type: text/plain"));
  EXPECT_THAT(text.body, HasSubstr("login"));
  EXPECT_THAT(text.body, Not(HasSubstr("search")));
  const auto json =
      weir.admin("GET", "/explain?workers=3&outage=11s", "", "Accept: application/json\r\n");
  EXPECT_TRUE(json.has("Content-Type: application/json"));
  EXPECT_THAT(json.body, ::testing::StartsWith("{"));
  EXPECT_EQ(weir.admin("GET", "/explain?format=text", "", "Accept: application/json\r\n").status,
            200);
  EXPECT_EQ(weir.admin("GET", "/explain?route=nowhere").status, 404);
  for (const char* bad :
       {"?x=1", "?workers=0", "?workers=x", "?outage=11", "?format=xml", "?route=%",
        "?outage=11s&offered=many", "?offered=1+client+at+1+per+second"}) {
    EXPECT_EQ(weir.admin("GET", std::string("/explain") + bad).status, 400) << bad;
  }
}

TEST(Serve, AdminChangesNeedTheToken) {
  ServedProcess weir(kPolicy);
  EXPECT_EQ(weir.admin("POST", "/policy/reload").status, 401);
  EXPECT_EQ(weir.admin("POST", "/reset", kLogin).status, 401);
  EXPECT_EQ(weir.admin("GET", "/policy/reload").header("Allow"), "POST");
  for (int i = 0; i < 6; ++i) weir.http("POST", "/v1/check", kLogin);
  EXPECT_EQ(weir.http("POST", "/v1/check", kLogin).status, 429);
  EXPECT_EQ(weir.admin("POST", "/reset", kLogin, ServedProcess::bearer()).status, 200);
  EXPECT_THAT(weir.http("POST", "/v1/check", kLogin).body, HasSubstr("\"remaining\":4"));
  EXPECT_EQ(weir.admin("POST", "/reset", R"({"route":"nowhere"})", ServedProcess::bearer()).status,
            404);
  // Else the counter of requests without an address would be forgotten.
  const auto misspelt = weir.admin(
      "POST", "/reset", R"({"route":"login","descriptors":{"Ip":"a"}})", ServedProcess::bearer());
  EXPECT_EQ(misspelt.status, 400);
  EXPECT_THAT(misspelt.body, HasSubstr("no rule counts by 'Ip'; the policy knows: "));

  ServedProcess open(kPolicy, [](ServeOptions& options) { options.admin_token_file = ""; });
  EXPECT_EQ(open.admin("POST", "/policy/reload", "", ServedProcess::bearer()).status, 403);
}

TEST(Serve, AdminIsNotReachedThroughAForeignName) {
  ServedProcess weir(kPolicy);
  TestClient client(weir.admin());
  client.send("GET /policy HTTP/1.1\r\nHost: evil.example:6070\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.rest(), ::testing::StartsWith("HTTP/1.1 403 "));
}

// Runs `body` with so many descriptors allowed, and allows what was allowed before again.
void with_descriptors(rlim_t most, const std::function<void()>& body) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // A process that is forked meanwhile raises its own up to the hard limit, so that one is lowered
  // too, in a process of its own.
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit fewer{most, most};
    ::setrlimit(RLIMIT_NOFILE, &fewer);
    body();
    std::_Exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Serve, StaysWithinItsDescriptorsAndReachableForAdmin) {
  with_descriptors(60, [] {
    ServedProcess weir(kPolicy);
    ASSERT_TRUE(weir.ready()) << weir.err();
    {
      std::vector<std::unique_ptr<TestClient>> flood;
      for (int i = 0; i < 40; ++i) flood.push_back(std::make_unique<TestClient>(weir.http()));
      const auto turned_away = [&] {
        const std::string page = weir.admin("GET", "/metrics").body;
        return page.find("weir_connections_turned_away_total 0\n") == std::string::npos;
      };
      EXPECT_TRUE(ServedProcess::within(turned_away));
      EXPECT_EQ(weir.admin("POST", "/policy/reload", "", ServedProcess::bearer()).status, 200);
      EXPECT_THAT(weir.err(), Not(HasSubstr("accept_failed")));
    }
    EXPECT_TRUE(ServedProcess::within(
        [&] { return weir.http("POST", "/v1/check", kLogin).status == 200; }));
  });
}

TEST(Serve, SaysThatItHasTooFewDescriptors) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer that looks at vtables needs a descriptor for it";
#endif
  with_descriptors(14, [] {
    ServedProcess weir(kPolicy);
    EXPECT_EQ(weir.wait(), 3);
    EXPECT_THAT(weir.err(), HasSubstr("ulimit -n")) << weir.err();
  });
}

TEST(Serve, SaysWhyItCannotStart) {
  {
    const ListenSockets taken = listen_on(parse_address("127.0.0.1:0").value(), 1).value();
    ServedProcess weir(kPolicy,
                       [&](ServeOptions& options) { options.http = taken.address.text(); });
    EXPECT_EQ(weir.wait(), 3);
    EXPECT_THAT(weir.err(),
                HasSubstr("weir: --http " + taken.address.text() + ": port " +
                          std::to_string(taken.address.port) + " is in use by another process"));
  }
  {
    ServedProcess weir(kPolicy, [](ServeOptions& options) { options.admin = "6070"; });
    EXPECT_EQ(weir.wait(), 2);
    EXPECT_THAT(weir.err(), HasSubstr("weir: --admin '6070' has no port; allowed: HOST:PORT"));
  }
  {
    ServedProcess weir(
        "routes:\n  login:\n    limits: [5 per fortnight]\n    protects: security\n");
    EXPECT_EQ(weir.wait(), 2);
    EXPECT_THAT(weir.err(), HasSubstr("weir.yaml:3:"));
    EXPECT_EQ(weir.out(), "");
  }
  {
    ServedProcess weir(kPolicy, [](ServeOptions& options) { options.policy_path += ".absent"; });
    EXPECT_EQ(weir.wait(), 2);
    EXPECT_THAT(weir.err(), HasSubstr("weir.yaml.absent"));
  }
  {
    ServedProcess weir(kPolicy, [](ServeOptions& options) {
      options.http = options.grpc = options.admin = "off";
    });
    EXPECT_EQ(weir.wait(), 2);
    EXPECT_THAT(weir.err(), HasSubstr("weir: --http, --grpc and --admin are all off"));
  }
  {
    ServedProcess weir(kPolicy, [](ServeOptions& options) { options.lanes = 257; });
    EXPECT_EQ(weir.wait(), 2);
    EXPECT_THAT(weir.err(), HasSubstr("--lanes 257: allowed are 1 to 256"));
  }
}

}  // namespace
}  // namespace weir::server
