#include "cli/completion.h"

#include "base/shell_word.h"

namespace weir::cli {
namespace {

std::string names_of(const std::vector<Grammar::Option>& options) {
  std::string out;
  for (const Grammar::Option& option : options) out += (out.empty() ? "" : " ") + option.name;
  return out;
}

std::string words_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string verbs_of(const Grammar& grammar) {
  std::string out;
  for (const Grammar::Verb& verb : grammar.verbs) out += (out.empty() ? "" : " ") + verb.name;
  return out;
}

std::string bash(const Grammar& grammar) {
  std::string out =
      "# bash completion for weir: source it, or install it as bash-completion/completions/weir\n"
      "_weir() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= words=\n"
      "  [[ $word == = ]] && word=\n"  // bash takes --option=value for three words
      "  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W \"" +
      verbs_of(grammar) + " " + names_of(grammar.options) +
      "\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const Grammar::Verb& verb : grammar.verbs) {
    out += "    " + verb.name + ") options=\"" + names_of(verb.options) + "\" words=\"" +
           words_of(verb.words) + "\" ;;\n";
  }
  out +=
      "  esac\n"
      "  case \"${COMP_WORDS[1]} $before\" in\n";
  for (const Grammar::Verb& verb : grammar.verbs) {
    for (const Grammar::Option& option : verb.options) {
      if (option.words.empty()) continue;
      out += "    \"" + verb.name + " " + option.name + "\") COMPREPLY=($(compgen -W \"" +
             words_of(option.words) + "\" -- \"$word\")); return ;;\n";
    }
  }
  out +=
      "  esac\n"
      "  if [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
      "  elif [[ -n $words ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "  else\n"
      "    compopt -o filenames 2>/dev/null\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n"
      "}\n"
      "complete -F _weir weir\n";
  return out;
}

// zsh's _arguments wants '--name[help]:message:action'.
std::string zsh_option(const Grammar::Option& option) {
  std::string help;
  for (const char c : option.help) {
    if (c == '[' || c == ']' || c == '\\') help += '\\';
    help += c;
  }
  std::string value;
  if (option.takes_value) value = ":value:_files";
  if (!option.words.empty()) value = ":value:(" + words_of(option.words) + ")";
  return shell_word(option.name + "[" + help + "]" + value);
}

std::string zsh(const Grammar& grammar) {
  std::string out =
      "#compdef weir\n"
      "# zsh completion for weir: install it as _weir in a folder of $fpath\n"
      "_weir() {\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  for (const Grammar::Verb& verb : grammar.verbs) {
    out += "    " + shell_word(verb.name + ":" + verb.help) + "\n";
  }
  out +=
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe 'verb' verbs\n"
      "    _arguments";
  for (const Grammar::Option& option : grammar.options) out += " " + zsh_option(option);
  out +=
      "\n"
      "    return\n"
      "  fi\n"
      "  case ${words[2]} in\n";
  for (const Grammar::Verb& verb : grammar.verbs) {
    out += "    " + verb.name + ")\n      _arguments";
    for (const Grammar::Option& option : verb.options) out += " \\\n        " + zsh_option(option);
    out += " \\\n        " + shell_word(verb.words.empty()
                                            ? "*:argument:_files"
                                            : "*:argument:(" + words_of(verb.words) + ")");
    out += "\n      ;;\n";
  }
  out +=
      "  esac\n"
      "}\n"
      "if [[ $funcstack[1] == _weir ]]; then\n"
      "  _weir \"$@\"\n"
      "else\n"
      "  compdef _weir weir\n"
      "fi\n";
  return out;
}

std::string fish_option(const Grammar::Option& option, const std::string& condition) {
  std::string value;
  if (option.takes_value) value = " -r";
  if (!option.words.empty()) value = " -x -a " + shell_word(words_of(option.words));
  return "complete -c weir" + condition + " -l " + option.name.substr(2) + value + " -d " +
         shell_word(option.help) + "\n";
}

std::string fish(const Grammar& grammar) {
  std::string out =
      "# fish completion for weir: install it as completions/weir.fish\n"
      "complete -c weir -e\n";
  const std::string first = " -n __fish_use_subcommand";
  for (const Grammar::Verb& verb : grammar.verbs) {
    out +=
        "complete -c weir -f" + first + " -a " + verb.name + " -d " + shell_word(verb.help) + "\n";
  }
  for (const Grammar::Option& option : grammar.options) out += fish_option(option, first);
  for (const Grammar::Verb& verb : grammar.verbs) {
    const std::string after = " -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const Grammar::Option& option : verb.options) out += fish_option(option, after);
    if (!verb.words.empty()) {
      out += "complete -c weir -f" + after + " -a '" + words_of(verb.words) + "'\n";
    }
  }
  return out;
}

}  // namespace

std::string completion_script(std::string_view shell, const Grammar& grammar) {
  if (shell == "bash") return bash(grammar);
  if (shell == "zsh") return zsh(grammar);
  if (shell == "fish") return fish(grammar);
  return "";
}

}  // namespace weir::cli
