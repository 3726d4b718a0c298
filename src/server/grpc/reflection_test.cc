#include "server/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <gtest/gtest.h>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "grpc/reflection/v1/reflection.pb.h"
#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using namespace std::chrono_literals;
using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;

constexpr std::string_view kV1 = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr std::string_view kAlpha =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

class ReflectionTest : public ::testing::Test {
 protected:
  ReflectionTest() { engine.add(reflection); }

  ServerReflectionResponse ask(const ServerReflectionRequest& request,
                               std::string_view path = kV1) {
    Session session(engine, now);
    TestClient client(session);
    const auto id = client.call(path, framed(request.SerializeAsString()));
    client.run(now);
    EXPECT_EQ(client.answer(id).status(), "0");
    ServerReflectionResponse response;
    EXPECT_TRUE(response.ParseFromString(client.answer(id).message()));
    return response;
  }

  MonoTime now{1h};
  ReflectionService reflection{{"envoy.service.ratelimit.v3.RateLimitService"}};
  Engine engine;
};

TEST_F(ReflectionTest, ListsServicesInBothVersions) {
  ServerReflectionRequest request;
  request.set_list_services("");
  for (const auto path : {kV1, kAlpha}) {
    const auto response = ask(request, path);
    ASSERT_EQ(response.list_services_response().service_size(), 1);
    EXPECT_EQ(response.list_services_response().service(0).name(),
              "envoy.service.ratelimit.v3.RateLimitService");
  }
}

// What a tool does: builds the types from the answer alone, and finds text where the contract has
// strings.
TEST_F(ReflectionTest, DescribesTheServiceCompletely) {
  // The generated code is linked in, and with it its descriptors.
  ASSERT_NE(envoy::service::ratelimit::v3::RateLimitRequest::descriptor(), nullptr);
  ServerReflectionRequest request;
  request.set_file_containing_symbol("envoy.service.ratelimit.v3.RateLimitService");
  const auto response = ask(request);
  ASSERT_TRUE(response.has_file_descriptor_response());
  google::protobuf::SimpleDescriptorDatabase database;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(bytes));
    database.Add(file);
  }
  google::protobuf::DescriptorPool pool(&database);
  const auto* service = pool.FindServiceByName("envoy.service.ratelimit.v3.RateLimitService");
  ASSERT_NE(service, nullptr);
  const auto* method = service->FindMethodByName("ShouldRateLimit");
  ASSERT_NE(method, nullptr);
  using Field = google::protobuf::FieldDescriptor;
  EXPECT_EQ(method->input_type()->FindFieldByName("domain")->type(), Field::TYPE_STRING);
  const auto* entry = method->input_type()
                          ->FindFieldByName("descriptors")
                          ->message_type()
                          ->FindFieldByName("entries")
                          ->message_type();
  EXPECT_EQ(entry->FindFieldByName("value")->type(), Field::TYPE_STRING);
  EXPECT_EQ(method->output_type()->FindFieldByName("raw_body")->type(), Field::TYPE_BYTES);
  const auto* status = method->output_type()->FindFieldByName("statuses")->message_type();
  EXPECT_FALSE(status->FindFieldByName("current_limit")->has_optional_keyword());
  ASSERT_EQ(status->oneof_decl_count(), 1);
  EXPECT_EQ(status->oneof_decl(0)->name(), "quota_specifier");
}

TEST_F(ReflectionTest, SaysWhatItDoesNotKnow) {
  ServerReflectionRequest request;
  request.set_file_by_filename("nowhere.proto");
  EXPECT_EQ(ask(request).error_response().error_code(), 5);
  request.set_file_containing_symbol("no.Such");
  EXPECT_EQ(ask(request).error_response().error_code(), 5);
  request.set_all_extension_numbers_of_type("no.Such");
  EXPECT_EQ(ask(request).error_response().error_code(), 5);
  request.mutable_file_containing_extension()->set_containing_type("no.Such");
  EXPECT_EQ(ask(request).error_response().error_code(), 5);
  EXPECT_EQ(ask(ServerReflectionRequest()).error_response().error_code(), 3);
}

TEST_F(ReflectionTest, LetsGoOfAPeerThatDoesNotRead) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol("envoy.service.ratelimit.v3.RateLimitService");
  const std::string message = framed(request.SerializeAsString());
  Session session(engine, now);
  session.feed(std::string(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) +
                   frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
                   frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, request_headers(kV1)),
               now);
  std::size_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    session.feed(frame(NGHTTP2_DATA, 0, 1, message), now);
    std::string out;
    session.pull(out, 1 << 20);
    most = std::max(most, session.unsent(1));
  }
  EXPECT_LT(most, (1U << 20U) + 20'000);
  EXPECT_EQ(engine.counters().code(Code::resource_exhausted).get(), 1U);
}

}  // namespace
}  // namespace weir::server::grpc
