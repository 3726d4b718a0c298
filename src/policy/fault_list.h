#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weir/policy.h"

namespace weir::policy {

struct YamlNode;

// Most faults, and most warnings, that one file reports; after these one line says that there are
// more.
inline constexpr std::size_t kMaxFaults = 100;

// Collects the faults of one file. A problem reads on after the value it is about:
// "'often' " + "is no unit of time".
class FaultList {
 public:
  explicit FaultList(std::string file) : file_(std::move(file)) {}

  // At a node; a scalar's text is shown as the value.
  void add(const YamlNode& at, std::string_view field, std::string problem,
           std::string allowed = {});
  // At a node, with no value shown: something is missing, or must not be printed.
  void add_silent(const YamlNode& at, std::string_view field, std::string problem,
                  std::string allowed = {});
  void add(int line, int column, std::string_view field, std::string_view value,
           std::string problem, std::string allowed = {});
  void warn(const YamlNode& at, std::string_view field, std::string problem,
            std::string allowed = {});
  void warn(int line, int column, std::string_view field, std::string problem,
            std::string allowed = {});

  // Whether something stands against loading. Warnings do not.
  bool failed() const { return count_ > 0; }
  // How many stand against loading.
  std::size_t count() const { return count_; }
  const std::string& file() const { return file_; }
  // Every fault, by place.
  std::vector<Fault> sorted() const;

 private:
  void push(Fault fault);

  std::string file_;
  std::vector<Fault> faults_;
  std::size_t left_out_ = 0;
  std::size_t count_ = 0;
  std::size_t warnings_ = 0;
};

// The texts of those faults that are no warnings, one a line.
std::string text_of(const std::vector<Fault>& faults);

// A value as messages show it: at most 60 bytes, control characters as \xNN, and of anything that
// looks like a URL with credentials only what stands around them.
std::string shown(std::string_view value);

// The word of `known` that `given` was probably meant to be; empty where none is near.
std::string_view nearest(std::string_view given, const std::vector<std::string_view>& known);

// "closed, bounded, settle or open".
std::string one_of(const std::vector<std::string_view>& words);

}  // namespace weir::policy
