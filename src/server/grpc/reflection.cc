#include "server/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <set>
#include <utility>

#include "grpc/reflection/v1/reflection.pb.h"
#include "server/grpc/message.h"
#include "server/grpc/session.h"

namespace weir::server::grpc {
namespace {

using ::google::protobuf::DescriptorPool;
using ::google::protobuf::DescriptorProto;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::FieldDescriptorProto;
using ::google::protobuf::FileDescriptor;
using ::google::protobuf::FileDescriptorProto;
using ::grpc::reflection::v1::ServerReflectionRequest;
using ::grpc::reflection::v1::ServerReflectionResponse;

// The two versions are the same on the wire.
constexpr Method kMethods[] = {
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", MethodKind::streaming},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", MethodKind::streaming}};

// Fields that the published contracts call strings.
bool is_text(const FieldDescriptorProto& field) {
  if (field.type() != FieldDescriptorProto::TYPE_BYTES) return false;
  return field.name() == "domain" || field.name() == "key" || field.name() == "value" ||
         field.name() == "name";
}

void describe_as_published(DescriptorProto& message) {
  for (auto& field : *message.mutable_field()) {
    if (is_text(field)) field.set_type(FieldDescriptorProto::TYPE_STRING);
    if (!field.proto3_optional()) continue;
    field.clear_proto3_optional();
    field.clear_oneof_index();
  }
  // Those of `optional` stand behind the real ones, and have names that no contract gives.
  auto& oneofs = *message.mutable_oneof_decl();
  while (!oneofs.empty() && oneofs.rbegin()->name().starts_with('_')) oneofs.RemoveLast();
  for (auto& nested : *message.mutable_nested_type()) describe_as_published(nested);
}

// The file and all that it imports, each once, the file first.
void add_file(const FileDescriptor& file, std::set<const FileDescriptor*>& seen,
              ::grpc::reflection::v1::FileDescriptorResponse& response) {
  if (!seen.insert(&file).second) return;
  FileDescriptorProto description;
  file.CopyTo(&description);
  for (auto& message : *description.mutable_message_type()) describe_as_published(message);
  response.add_file_descriptor_proto(description.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) add_file(*file.dependency(i), seen, response);
}

void not_found(ServerReflectionResponse& response, const std::string& what) {
  response.mutable_error_response()->set_error_code(static_cast<int>(Code::not_found));
  response.mutable_error_response()->set_error_message("not known here: " + what);
}

void add_file_or_error(const FileDescriptor* file, const std::string& asked,
                       ServerReflectionResponse& response) {
  if (file == nullptr) return not_found(response, asked);
  std::set<const FileDescriptor*> seen;
  add_file(*file, seen, *response.mutable_file_descriptor_response());
}

void add_extension(const ::grpc::reflection::v1::ExtensionRequest& asked,
                   ServerReflectionResponse& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const auto* type = pool.FindMessageTypeByName(asked.containing_type());
  const FieldDescriptor* extension =
      type == nullptr ? nullptr : pool.FindExtensionByNumber(type, asked.extension_number());
  add_file_or_error(extension == nullptr ? nullptr : extension->file(), asked.containing_type(),
                    response);
}

void add_extension_numbers(const std::string& type_name, ServerReflectionResponse& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const auto* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) return not_found(response, type_name);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
}

}  // namespace

ReflectionService::ReflectionService(std::vector<std::string> services)
    : services_(std::move(services)) {}

std::span<const Method> ReflectionService::methods() const noexcept {
  return kMethods;
}

void ReflectionService::on_message(Session& session, const CallContext& call,
                                   std::string_view message) {
  ServerReflectionRequest request;
  if (!read_message(message, request)) {
    return session.finish(call.id, Code::internal, "the message cannot be read");
  }
  if (session.unsent(call.id) > kMostUnread) {
    return session.finish(call.id, Code::resource_exhausted, "answers are not being read");
  }
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const std::string& name : services_) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case ServerReflectionRequest::kFileByFilename:
      add_file_or_error(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
                        response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      add_file_or_error(pool.FindFileContainingSymbol(request.file_containing_symbol()),
                        request.file_containing_symbol(), response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:
      add_extension(request.file_containing_extension(), response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      add_extension_numbers(request.all_extension_numbers_of_type(), response);
      break;
    case ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(static_cast<int>(Code::invalid_argument));
      response.mutable_error_response()->set_error_message("the request asks for nothing");
      break;
  }
  append_message(session, call.id, response);
  session.flush(call.id);
}

}  // namespace weir::server::grpc
