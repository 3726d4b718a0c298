#include "cli/descriptor_words.h"

#include <algorithm>

namespace weir::cli {

std::optional<drill::DescriptorTexts::value_type> read_descriptor(std::string_view word) {
  drill::DescriptorTexts::value_type entries;
  while (!word.empty()) {
    const std::string_view part = word.substr(0, word.find(','));
    word.remove_prefix(std::min(word.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) return std::nullopt;
    entries.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return entries;
}

std::string descriptor_word(const drill::DescriptorTexts::value_type& entries) {
  std::string out;
  for (const auto& [key, value] : entries) {
    out += out.empty() ? "" : ",";
    out += key;
    out += '=';
    out += value;
  }
  return out;
}

std::optional<RequestWords> read_request(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  RequestWords request;
  while (true) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlank)));
    if (text.empty()) break;
    const std::string_view word = text.substr(0, text.find_first_of(kBlank));
    text.remove_prefix(word.size());
    if (request.domain.empty()) {
      request.domain = word;
      continue;
    }
    auto descriptor = read_descriptor(word);
    if (!descriptor || descriptor->empty()) return std::nullopt;
    request.descriptors.push_back(std::move(*descriptor));
  }
  if (request.descriptors.empty()) return std::nullopt;
  return request;
}

}  // namespace weir::cli
