#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::server::http {

// Reads JSON (RFC 8259) front to back, for grammars that are known: the caller says what may come,
// so depth is bounded by the caller's own code and nothing is built.
//
// Unlike nlohmann's, it takes any byte of 0x20 and above inside a string as it is: header values
// are bytes, a caller that could not send them would not be limited. A lone surrogate (\ud800) is
// kept as its three bytes, for the same reason.
//
// Guarantees:  after the first fault every call fails. Strings are views of the text, or of the
//              reader's own memory where they held escapes; they live as long as both.
// Threads:     one at a time.
class JsonReader {
 public:
  enum class Kind : std::uint8_t { object, array, string, number, boolean, null, none };

  // Begins anew. Keeps its memory.
  void begin(std::string_view text);

  // What comes next; none at the end or where nothing can begin.
  Kind next();

  bool string(std::string_view& value);
  // A number as it is written.
  bool number(std::string_view& digits);
  bool null();

  // Reads an object; `member(key)` reads the value and says whether to go on.
  template <class Member>
  bool object(Member&& member) {
    if (!take('{')) return fail("An object was expected.");
    if (take('}')) return true;
    do {
      std::string_view key;
      if (next() != Kind::string) return fail("A member's name in quotes was expected.");
      if (!string(key)) return false;
      if (!take(':')) return fail("A colon was expected after a member's name.");
      if (!member(key)) return false;
    } while (take(','));
    return take('}') || fail("A comma or the object's end was expected.");
  }
  // Reads an array; `element()` reads one value and says whether to go on.
  template <class Element>
  bool array(Element&& element) {
    if (!take('[')) return fail("An array was expected.");
    if (take(']')) return true;
    do {
      if (!element()) return false;
    } while (take(','));
    return take(']') || fail("A comma or the array's end was expected.");
  }

  // Nothing but blanks is left.
  bool end();

  bool failed() const noexcept { return !fault_.empty(); }
  // A sentence; static.
  std::string_view fault() const noexcept { return fault_; }
  std::size_t at() const noexcept { return at_; }

 private:
  void skip_blanks() noexcept;
  bool take(char wanted) noexcept;
  bool fail(std::string_view why) noexcept;
  // The rest of a string from its first escape on; `begin` is after the opening quote.
  bool escaped_string(std::size_t begin, std::string_view& value);
  bool escape();
  bool unicode_escape();
  bool hex4(std::uint32_t& code) noexcept;

  std::string_view text_;
  std::size_t at_ = 0;
  std::string_view fault_;
  std::string unescaped_;  // never grows while a view of it lives
};

std::string_view to_string(JsonReader::Kind kind);

}  // namespace weir::server::http
