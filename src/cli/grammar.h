#pragma once

#include <string>
#include <vector>

namespace weir::cli {

// The command line as data: what completion scripts are written from, so that they never know
// another command line than the program does.
struct Grammar {
  struct Option {
    std::string name;  // "--cost"
    std::string help;
    bool takes_value = false;
    std::vector<std::string> words{};  // what the value may be, where that is a choice
  };
  struct Verb {
    std::string name;
    std::string help;
    std::vector<Option> options;
    std::vector<std::string> words;  // what its argument may be, where that is a choice
  };
  std::vector<Option> options;  // of the program itself
  std::vector<Verb> verbs;
};

}  // namespace weir::cli
