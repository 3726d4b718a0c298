#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace weir::cli_tests {
namespace {

// In the child: becomes the program.
[[noreturn]] void become(std::vector<std::string>& words, const Surroundings& surroundings) {
  std::vector<std::string> variables = {"PATH=" + std::string(std::getenv("PATH")),
                                        "LC_ALL=C.UTF-8"};
  for (const auto& [name, value] : surroundings.variables) variables.push_back(name + "=" + value);
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  if (chdir(surroundings.folder.c_str()) == 0) execvpe(argv[0], argv.data(), envp.data());
  _exit(127);
}

int exit_code_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// Reads both until both are at their end.
void read_all(std::array<int, 2> from, std::array<std::string*, 2> into) {
  std::array<pollfd, 2> polls = {pollfd{from[0], POLLIN, 0}, pollfd{from[1], POLLIN, 0}};
  std::array<char, 4096> block;
  while (polls[0].fd >= 0 || polls[1].fd >= 0) {
    if (poll(polls.data(), polls.size(), -1) < 0) throw std::runtime_error("poll");
    for (std::size_t i = 0; i < polls.size(); ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      const ssize_t got = read(polls[i].fd, block.data(), block.size());
      if (got > 0) {
        into[i]->append(block.data(), static_cast<std::size_t>(got));
      } else {  // the end, or the terminal hung up
        close(polls[i].fd);
        polls[i].fd = -1;
      }
    }
  }
}

}  // namespace

Outcome run(std::vector<std::string> words, const Surroundings& surroundings) {
  int out[2];
  int err[2];
  if (pipe(out) != 0 || pipe(err) != 0) throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    const int nothing = open("/dev/null", O_RDONLY);
    const int file =
        surroundings.out_file.empty() ? out[1] : open(surroundings.out_file.c_str(), O_WRONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(file, STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    for (const int fd : {out[0], out[1], err[0], err[1]}) close(fd);
    become(words, surroundings);
  }
  close(out[1]);
  close(err[1]);
  Outcome outcome;
  read_all({out[0], err[0]}, {&outcome.out, &outcome.err});
  outcome.exit_code = exit_code_of(child);
  return outcome;
}

Outcome run_on_terminal(std::vector<std::string> words, const Surroundings& surroundings) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child < 0) throw std::runtime_error("forkpty");
  if (child == 0) become(words, surroundings);
  Outcome outcome;
  read_all({terminal, -1}, {&outcome.out, &outcome.err});
  outcome.exit_code = exit_code_of(child);
  return outcome;
}

bool installed(const char* program) {
  return run({"sh", "-c", std::string("command -v ") + program}).exit_code == 0;
}

Outcome weir(std::vector<std::string> words, const Surroundings& surroundings) {
  words.insert(words.begin(), WEIR_PROGRAM);
  return run(std::move(words), surroundings);
}

Folder::Folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "weir-cli-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Folder::write(const std::string& name, const std::string& text) const {
  std::ofstream(std::filesystem::path(path_) / name) << text;
}

}  // namespace weir::cli_tests
