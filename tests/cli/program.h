#pragma once

#include <map>
#include <string>
#include <vector>

namespace weir::cli_tests {

struct Outcome {
  int exit_code = -1;  // -1: it did not exit by itself
  std::string out;
  std::string err;
};

struct Surroundings {
  std::string folder = ".";
  std::map<std::string, std::string> variables;  // besides PATH
  std::string out_file;                          // standard output goes there; empty: to `out`
};

// Runs a program to its end. `words` begins with its path.
Outcome run(std::vector<std::string> words, const Surroundings& surroundings = {});

// Runs it on a terminal of its own; what comes out of both streams is in `out`.
Outcome run_on_terminal(std::vector<std::string> words, const Surroundings& surroundings = {});

// Whether the shell finds a program of this name.
bool installed(const char* program);

// The program under test with these words.
Outcome weir(std::vector<std::string> words, const Surroundings& surroundings = {});

// A folder of its own with the policy that these tests ask, gone at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

}  // namespace weir::cli_tests
