#include "server/reload/policy_watch.h"

#include <utility>  // Boost 1.74 needs it first

#include <sys/inotify.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "server/lane.h"
#include "server/reload/watched_path.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;

constexpr std::uint32_t kEvents = IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_CREATE | IN_DELETE |
                                  IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;

asio::steady_timer::duration ticks(Nanos time) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(time);
}

}  // namespace

class PolicyWatch::Impl {
 public:
  Impl(Lane& lane, std::string path, std::function<void()> changed, PolicyWatchOptions options)
      : lane_(lane),
        path_(std::move(path)),
        name_(std::filesystem::path(path_).filename().string()),
        changed_(std::move(changed)),
        options_(options),
        quiet_(lane.io()),
        poll_(lane.io()),
        told_(lane.io()) {
    if (options_.inotify) open();
    seen_ = signature_of(path_);
    arm_poll();
  }

  bool told() const noexcept { return watching_; }

  void look_again() { seen_.clear(); }

 private:
  void open() {
    const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) return;
    told_.assign(fd);
    watch_directories();
    read_events();
  }

  // The directories change as links do, so they are found anew after every event.
  void watch_directories() {
    if (!told_.is_open()) return;
    std::map<int, std::string> now;
    bool all = true;
    for (const std::string& folder : directories_on_the_way(path_)) {
      const int watch = ::inotify_add_watch(told_.native_handle(), folder.c_str(), kEvents);
      if (watch >= 0) now.emplace(watch, folder);
      all = all && watch >= 0;
    }
    for (const auto& [watch, folder] : watches_) {
      if (!now.contains(watch)) ::inotify_rm_watch(told_.native_handle(), watch);
    }
    std::erase_if(open_for_writing_, [&](const auto& file) { return !now.contains(file.first); });
    watches_ = std::move(now);
    watching_ = all;
    std::error_code ignored;
    directory_.clear();
    if (std::filesystem::is_directory(path_, ignored)) {
      directory_ = std::filesystem::canonical(path_, ignored).string();
    }
  }

  // Whether it is of a file that is read: the policy, or one in the directory that is it.
  bool is_of_policy(const inotify_event& event) const {
    if (event.len == 0) return false;
    const std::string_view name = event.name;
    if (name == name_) return true;
    const auto watch = watches_.find(event.wd);
    return watch != watches_.end() && watch->second == directory_ && !name.starts_with('.') &&
           (name.ends_with(".yaml") || name.ends_with(".yml"));
  }

  void read_events() {
    told_.async_read_some(asio::buffer(events_),
                          [this](const boost::system::error_code& fault, std::size_t bytes) {
                            if (fault) return;
                            lane_.begin_event();
                            take(bytes);
                            read_events();
                          });
  }

  void take(std::size_t bytes) {
    bool ours = false;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= bytes;) {
      const auto* event = reinterpret_cast<const inotify_event*>(events_.data() + at);  // NOLINT
      at += sizeof(inotify_event) + event->len;
      const bool lost = (event->mask & IN_Q_OVERFLOW) != 0;
      if (lost) open_for_writing_.clear();
      const bool of_policy = is_of_policy(*event);
      ours = ours || of_policy || lost;
      if (!of_policy) continue;
      const std::pair<int, std::string> file(event->wd, event->name);
      if ((event->mask & IN_MODIFY) != 0) open_for_writing_.insert(file);
      if ((event->mask & (IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE)) != 0) {
        open_for_writing_.erase(file);
      }
    }
    watch_directories();
    if (ours || signature_of(path_) != seen_) suspect();
  }

  void suspect() {
    if (!suspected_) suspected_ = lane_.now();
    quiet_.expires_after(ticks(options_.quiet));
    quiet_.async_wait([this](const boost::system::error_code& fault) {
      if (fault) return;
      lane_.begin_event();
      rested();
    });
  }

  void rested() {
    if (!open_for_writing_.empty() && lane_.now() - *suspected_ < options_.patience) {
      return suspect();
    }
    open_for_writing_.clear();
    suspected_.reset();
    seen_ = signature_of(path_);
    changed_();
  }

  void arm_poll() {
    poll_.expires_after(ticks(options_.poll));
    poll_.async_wait([this](const boost::system::error_code& fault) {
      if (fault) return;
      lane_.begin_event();
      watch_directories();
      if (!suspected_ && signature_of(path_) != seen_) suspect();
      arm_poll();
    });
  }

  Lane& lane_;
  const std::string path_;
  const std::string name_;
  const std::function<void()> changed_;
  const PolicyWatchOptions options_;
  asio::steady_timer quiet_;
  asio::steady_timer poll_;
  asio::posix::stream_descriptor told_;
  bool watching_ = false;
  std::map<int, std::string> watches_;
  std::string seen_;
  std::optional<MonoTime> suspected_;  // when the first sign of this change came
  std::string directory_;              // that `path` leads to; empty where it leads to a file
  // Files that somebody wrote into and has not closed: the watch of their directory, and their
  // name.
  std::set<std::pair<int, std::string>> open_for_writing_;
  alignas(inotify_event) std::array<char, 16 * 1024> events_{};
};

PolicyWatch::PolicyWatch(Lane& lane, std::string path, std::function<void()> changed,
                         PolicyWatchOptions options)
    : impl_(std::make_unique<Impl>(lane, std::move(path), std::move(changed), options)) {}

PolicyWatch::~PolicyWatch() = default;

void PolicyWatch::look_again() {
  impl_->look_again();
}

bool PolicyWatch::told() const noexcept {
  return impl_->told();
}

}  // namespace weir::server
