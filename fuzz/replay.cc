// Runs a fuzz target without a fuzzer: each input of its corpus as it is, cut off after every byte,
// and with every byte replaced. What a fuzzer once found stays found, with every compiler.

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kMostAltered = 500;  // inputs made of one, of either kind
constexpr unsigned char kInstead[] = {0x00, 0x7f, 0xff, '"'};

// What is under way, for whoever reads of a fault.
std::string under_way;

void say_where(int signal) {
  constexpr std::string_view kFault = "fault at ";
  (void)!::write(STDERR_FILENO, kFault.data(), kFault.size());
  (void)!::write(STDERR_FILENO, under_way.data(), under_way.size());
  (void)!::write(STDERR_FILENO, "\n", 1);
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal);
}

void run(const std::string& input, std::string where) {
  under_way = std::move(where);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::size_t replay(const std::string& name, const std::string& input) {
  run(input, name);
  std::size_t count = 1;
  const std::size_t stride = input.size() / kMostAltered + 1;
  for (std::size_t at = 0; at < input.size(); at += stride) {
    const std::string place = " at byte " + std::to_string(at);
    run(input.substr(0, at), name + " cut off" + place);
    std::string altered = input;
    const unsigned char other = kInstead[at % std::size(kInstead)];
    altered[at] = static_cast<char>(other);
    run(altered, name + " with " + std::to_string(other) + place);
    count += 2;
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: %s CORPUS: a folder with an input a file\n", argv[0]);
    return 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL})
    std::signal(signal, say_where);
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) files.insert(entry.path());
  if (files.empty()) {
    std::fprintf(stderr, "%s holds no input\n", argv[1]);
    return 1;
  }
  std::size_t count = 0;
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", path.c_str());
      return 1;
    }
    count += replay(path.filename().string(), input);
  }
  std::printf("%zu inputs from %zu files\n", count, files.size());
  return 0;
}
