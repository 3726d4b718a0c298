#include "policy/path.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace weir::policy {
namespace {

std::string normal(std::string_view path) {
  std::array<char, kMaxPathBytes> out;
  const auto path_or = normalise_path(path, out);
  return path_or ? std::string(*path_or) : "none";
}

TEST(NormalisePath, LeavesNormalPathsAlone) {
  for (const std::string_view path :
       {"/", "/login", "/a/b.c/d~e", "/a@b:c;d=1,2", "/a%20b", "/%2F"})
    EXPECT_EQ(normal(path), path);
}

// Each of these reaches the same handler behind most servers; as another path it would have another
// limit, or none.
TEST(NormalisePath, GivesOneSpellingToOnePath) {
  for (const std::string_view path :
       {"/login", "//login", "/login/", "/%6Cogin", "/%6cogin", "/./login", "/x/../login",
        "/x/%2e%2E/login", "/%2e/login", "/../login", "/login//", "/login/.", "/a/b/../../login"})
    EXPECT_EQ(normal(path), "/login") << path;
}

TEST(NormalisePath, KeepsAnEscapedSlashApart) {
  EXPECT_EQ(normal("/a%2fb"), "/a%2Fb");
  EXPECT_NE(normal("/a%2Fb"), normal("/a/b"));
  EXPECT_EQ(normal("/%2e%2e%2fadmin"), "/..%2Fadmin");
}

TEST(NormalisePath, EscapesWhatNeedsIt) {
  EXPECT_EQ(normal("/a b"), "/a%20b");
  EXPECT_EQ(normal("/\xc3\xa9"), "/%C3%A9");
  EXPECT_EQ(normal("/%c3%a9"), "/%C3%A9");
  EXPECT_EQ(normal("/a%25b"), "/a%25b");
  EXPECT_EQ(normal("/%3f%23"), "/%3F%23");
  EXPECT_EQ(normal("/a\\b"), "/a%5Cb");
}

TEST(NormalisePath, RefusesWhatIsMalformed) {
  for (const std::string_view path :
       {"", "login", "/%", "/%4", "/%zz", "/a%00b", "/a\nb", "/a?b", "/a#b", "/a\x7f"})
    EXPECT_EQ(normal(path), "none") << path;
  EXPECT_EQ(normal(std::string_view("/a\0b", 4)), "none");
}

TEST(NormalisePath, RefusesWhatOutgrowsItsBuffer) {
  EXPECT_EQ(normal("/" + std::string(kMaxPathBytes - 8, 'a')),
            "/" + std::string(kMaxPathBytes - 8, 'a'));
  EXPECT_EQ(normal("/" + std::string(kMaxPathBytes, 'a')), "none");
  EXPECT_EQ(normal("/" + std::string(kMaxPathBytes / 2, ' ')), "none");
  std::array<char, 3> tiny;
  EXPECT_FALSE(normalise_path("/a", tiny));
}

TEST(NormalisePath, ChangesNothingTheSecondTime) {
  std::mt19937 random(7);
  constexpr std::string_view kPieces[] = {"/",   "..",  ".",   "a", "%2e",
                                          "%2F", "%41", "%25", " ", "//"};
  for (int i = 0; i < 20'000; ++i) {
    std::string path = "/";
    for (int n = static_cast<int>(random() % 12); n > 0; --n) path += kPieces[random() % 10];
    const std::string once = normal(path);
    ASSERT_EQ(normal(once), once) << path;
    ASSERT_EQ(once.find("/./"), std::string::npos) << path;
    ASSERT_EQ(once.find("/../"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace weir::policy
