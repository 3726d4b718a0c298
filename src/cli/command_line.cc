#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>

#include "cli/bench.h"
#include "cli/check.h"
#include "cli/compare.h"
#include "cli/completion.h"
#include "cli/drill.h"
#include "cli/explain.h"
#include "cli/journal.h"
#include "cli/lint.h"
#include "cli/proxy.h"
#include "cli/serve.h"
#include "drill/scenario/scenario.h"
#include "policy/names.h"
#include "policy/store_url.h"
#include "weir/policy.h"
#include "weir/version.h"

namespace weir::cli {
namespace {

// Everything that the words may set, and the parser that sets it.
struct CommandLine {
  CheckCommand check;
  CompareCommand compare;
  ExplainCommand explain;
  LintCommand lint;
  ServeCommand serve;
  BenchCommand bench;
  DrillCommand drill;
  ProxyCommand proxy;
  JournalCommand journal;
  std::string shell;
  bool version = false;
  bool json = false;

  CLI::App app{"Decides allow or deny for requests, and what happens when it cannot count.",
               "weir"};
  CLI::App* check_verb = nullptr;
  CLI::App* compare_verb = nullptr;
  CLI::App* explain_verb = nullptr;
  CLI::App* lint_verb = nullptr;
  CLI::App* serve_verb = nullptr;
  CLI::App* bench_verb = nullptr;
  CLI::App* drill_verb = nullptr;
  CLI::App* proxy_verb = nullptr;
  CLI::App* journal_verb = nullptr;
  CLI::App* completion_verb = nullptr;

  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

 private:
  void add_check();
  void add_compare();
  void add_explain();
  void add_lint();
  void add_serve();
  void add_bench();
  void add_drill();
  void add_proxy();
  void add_journal();
  void add_completion();
};

constexpr const char* kPolicyHelp = "Policy file, or a directory of them";
constexpr const char* kStoreHelp = "Store to use instead of the policy's; also WEIR_STORE";

CLI::App* verb(CLI::App& app, const char* name, const char* help) {
  CLI::App* added = app.add_subcommand(name, help);
  added->set_help_flag("-h,--help", "Say how it is used");
  return added;
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](std::string& word) { return word.empty() ? std::string("is empty") : std::string(); }, "");
}

void CommandLine::add_check() {
  check_verb = verb(app, "check", "Decide a request, here and now");
  check_verb->add_option("POLICY", check.policy, kPolicyHelp)->required()->type_name("");
  check_verb->add_option("ROUTE", check.route, "Route of the policy")->type_name("");
  check_verb->add_option("VALUES", check.values, "What rules count by: ip=192.0.2.7 user=ada …")
      ->type_name("");
  check_verb->add_option("--cost", check.cost, "Units to take; 0 takes none and only looks")
      ->type_name("N");
  check_verb->add_option("--times", check.times, "Decide so often, one line each")->type_name("N");
  check_verb->add_option("--store", check.store, kStoreHelp)->type_name("URL");
  check_verb
      ->add_option(
          "--rls", check.rls,
          "Ask the rate limit service there: check --rls ADDR DOMAIN KEY=VALUE,KEY=VALUE …")
      ->type_name("ADDR");
  check_verb->add_flag("--json", check.json, "One JSON object a line");
}

void CommandLine::add_compare() {
  compare_verb = verb(app, "compare", "Ask two rate limit services the same, and say what differs");
  compare_verb
      ->add_option("POLICY", compare.policy,
                   "Policy file, or a directory: a request is made for every limit of its domains")
      ->type_name("");
  compare_verb
      ->add_option("--rls", compare.services,
                   "The old service, then the new one; 127.0.0.1:8081 where one is given")
      ->type_name("ADDR")
      ->allow_extra_args(false);
  compare_verb
      ->add_option("--request", compare.requests,
                   "Ask this instead, as in 'shop user=ada path=/x,remote_address=192.0.2.7'")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  compare_verb->add_option("--requests", compare.file, "Ask what this file has, one request a line")
      ->type_name("FILE");
  compare_verb
      ->add_option("--hits", compare.hits, "Units to take of each service; 0 only looks; 0 else")
      ->type_name("N");
  compare_verb->add_flag("--one-budget", compare.one_budget,
                         "Both count on one store: the second is to have so many fewer left");
  compare_verb->add_flag("--shadow", compare.shadow,
                         "With --one-budget: limits in shadow mode may pass their last units");
  compare_verb->add_flag("--json", compare.json, "One JSON object a line, one a request");
}

void CommandLine::add_explain() {
  explain_verb =
      verb(app, "explain", "Say what a policy does with the store up, slow, down and coming back");
  explain_verb->add_option("POLICY", explain.policy, kPolicyHelp)->type_name("");
  explain_verb->add_option("ROUTE", explain.route, "One route alone")->type_name("");
  explain_verb->add_option("--workers", explain.workers, "Processes that share the limits")
      ->type_name("N");
  explain_verb->add_option("--outage", explain.outage, "How long the store is away, as in 11s")
      ->type_name("TIME");
  explain_verb
      ->add_option("--offered", explain.offered,
                   "With --outage: who asks each route, as in '30 clients at 200 per second'")
      ->type_name("TEXT");
  explain_verb
      ->add_option("--request", explain.request,
                   "Which limit of a domain a request meets, as in 'shop user=ada,path=/x'")
      ->type_name("TEXT");
  explain_verb->add_option("--store", explain.store, kStoreHelp)->type_name("URL");
  explain_verb->add_flag("--errors", explain.errors,
                         "Instead, without a policy: what each failure of a store means");
  explain_verb->add_flag("--json", explain.json, "One JSON object a line, one a route");
}

void CommandLine::add_lint() {
  lint_verb = verb(app, "lint", "Name every fault of policy files");
  lint_verb->add_option("POLICY", lint.policies, "Policy files, or directories of them")
      ->required()
      ->type_name("");
  lint_verb->add_flag("--connect", lint.connect,
                      "Ask the policies' stores, too: permissions, role, eviction, clock");
  lint_verb->add_option("--store", lint.store, "With --connect, the store to ask; also WEIR_STORE")
      ->type_name("URL");
  lint_verb->add_flag("--json", lint.json, "One JSON object a line, one a fault");
}

void CommandLine::add_serve() {
  serve_verb = verb(app, "serve", "Answer checks over HTTP and gRPC");
  serve_verb->add_option("POLICY", serve.policy, "Policy file; weir.yaml where none is named")
      ->type_name("");
  serve_verb
      ->add_option("--http", serve.http, "Where checks are answered: host:port, unix:PATH, off")
      ->type_name("ADDR");
  serve_verb->add_option("--grpc", serve.grpc, "The same for gRPC")->type_name("ADDR");
  serve_verb->add_option("--admin", serve.admin, "The same for metrics, health and administration")
      ->type_name("ADDR");
  serve_verb
      ->add_option("--admin-token-file", serve.admin_token_file,
                   "File with the token that changes need; also WEIR_ADMIN_TOKEN")
      ->type_name("FILE");
  serve_verb
      ->add_option("--tls-cert", serve.tls_cert,
                   "Certificate chain (PEM); HTTP and gRPC then speak TLS")
      ->type_name("FILE");
  serve_verb->add_option("--tls-key", serve.tls_key, "Its private key (PEM)")->type_name("FILE");
  serve_verb
      ->add_option("--tls-client-ca", serve.tls_client_ca,
                   "Clients must show a certificate of one of these authorities (PEM)")
      ->type_name("FILE");
  serve_verb->add_option("--tls", serve.tls_doors, "Doors that speak TLS, of http, grpc and admin")
      ->type_name("DOORS");
  serve_verb->add_option("--store", serve.store, kStoreHelp)->type_name("URL");
  serve_verb
      ->add_option("--store-prefix", serve.store_prefix,
                   "What keys in the store begin with, instead of the policy's")
      ->type_name("TEXT");
  serve_verb
      ->add_option("--state", serve.state,
                   "Folder for what is known of the fleet, instead of the policy's")
      ->type_name("DIR");
  serve_verb
      ->add_option("--journal", serve.journal,
                   "Folder of the journal and its ledger, instead of the policy's")
      ->type_name("DIR");
  serve_verb
      ->add_option("--protects", serve.protects,
                   "What Envoy-style domains protect that do not say themselves")
      ->type_name("WORD");
  serve_verb->add_option("--lanes", serve.lanes, "Threads that serve; one a core where not given")
      ->type_name("N");
  serve_verb
      ->add_option("--drain-delay", serve.drain_delay,
                   "From SIGTERM, which ends readiness, until no connection is taken")
      ->type_name("TIME");
  serve_verb
      ->add_option("--drain-grace", serve.drain_grace, "From then, for what is still in flight")
      ->type_name("TIME");
  serve_verb->add_flag("--json", serve.json, "Log in JSON");
}

void CommandLine::add_bench() {
  bench_verb = verb(app, "bench", "Load a service, and say how long answers took");
  bench_verb->add_option("WHAT", bench.what, "rls: a rate limit service, over gRPC")
      ->required()
      ->type_name("");
  bench_verb->add_option("ADDR", bench.address, "host:port or unix:PATH")
      ->required()
      ->type_name("");
  const auto option = [this](const char* name, std::string& to, const char* help,
                             const char* type) {
    bench_verb->add_option(name, to, help)->type_name(type);
  };
  option("--connections", bench.connections, "Connections; 4 where not given", "N");
  option("--streams", bench.streams, "Calls open at once on each; 100 where not given", "N");
  option("--rate", bench.rate, "Calls a second, begun on time; else as fast as answers come", "N");
  option("--duration", bench.duration, "How long; 10s where not given", "TIME");
  option("--domain", bench.domain, "Domain of the requests; bench where not given", "NAME");
  option("--key", bench.key, "Key of their one entry; key where not given", "NAME");
  option("--keys", bench.keys, "Different values of it; 10000 where not given", "N");
  option("--distribution", bench.distribution, "How they are drawn: uniform, zipf or hot", "WORD");
  option("--descriptors", bench.descriptors, "Descriptors of a request; 1 where not given", "N");
  option("--over-limit", bench.over_limit,
         "Percent of calls that ask for one key, soon over its limit", "N");
  option("--timeout", bench.timeout, "What the service is told to answer within", "TIME");
  option("--svg", bench.svg, "Draw the latencies into this file", "FILE");
  bench_verb->add_flag("--json", bench.json, "One JSON object");
}

void CommandLine::add_drill() {
  drill_verb = verb(app, "drill", "Make the store fail under load, and say what the policy did");
  drill_verb->add_option("POLICY", drill.policy, kPolicyHelp)->type_name("");
  drill_verb
      ->add_option("SCENARIO", drill.scenarios,
                   "Scenarios by name, all, or files of them; failover-11s where none is named")
      ->type_name("");
  drill_verb
      ->add_option("--length", drill.length,
                   "Percent of the time that each phase takes, 1 s at least; 100 where not given")
      ->type_name("N");
  drill_verb->add_option("--rate", drill.rate, "Calls a second of each route; 50 where not given")
      ->type_name("N");
  drill_verb->add_option("--clients", drill.clients, "Clients of each route; 12 where not given")
      ->type_name("N");
  drill_verb->add_option("--cost", drill.cost, "Units that each call takes; 1 where not given")
      ->type_name("N");
  drill_verb->add_option("--report", drill.report, "Write a page and its figures there")
      ->type_name("DIR");
  drill_verb
      ->add_option("--store", drill.store,
                   "A Redis that is there already, used under a prefix of the drill's own")
      ->type_name("URL");
  const auto option = [this](const char* name, std::string& to, const char* help,
                             const char* type) {
    drill_verb->add_option(name, to, help)->type_name(type);
  };
  option("--target", drill.target, "Instead of a policy: the address of somebody's API", "URL");
  option("--proxy-store", drill.proxy_store, "Its store, before which the drill stands: host:port",
         "ADDR");
  option("--listen", drill.listen,
         "Where the app is to look for its store; 127.0.0.1:16379 where not given", "ADDR");
  option("--limit", drill.limit, "Its limit, as in '100 per minute'", "TEXT");
  option("--key", drill.key, "What it counts by: header:NAME, query:NAME or cookie:NAME", "SOURCE");
  option("--keys", drill.keys, "Keys that it knows, one a line; else they are made up", "FILE");
  option("--method", drill.method, "GET where not given", "WORD");
  drill_verb->add_option("--header", drill.headers, "A header of every call, as in 'Name: value'")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  option("--body", drill.body, "Body of every call", "TEXT");
  option("--tls-ca", drill.tls_ca,
         "Of https: authorities (PEM) that its certificate may be of; this machine's else", "FILE");
  option("--tls-server-name", drill.tls_server_name,
         "Of https: what its certificate must be for; the address's host else", "NAME");
  drill_verb->add_flag("--insecure", drill.insecure,
                       "Of https: believe whoever answers, unchecked");
  option("--timeout", drill.timeout, "How long a call waits for its answer; 15s where not given",
         "TIME");
  option("--wait", drill.wait, "How long the app may take to be there; 30s where not given",
         "TIME");
  option("--expect", drill.expect, "What it is to do without its store: open, closed or limits",
         "WORD");
  drill_verb->add_flag("--list", drill.list, "Name the scenarios");
  drill_verb->add_flag("--json", drill.json, "One JSON object a scenario");
}

void CommandLine::add_proxy() {
  proxy_verb = verb(app, "proxy", "Stand between a client and a server, and break what passes");
  proxy_verb->add_option("--upstream", proxy.upstream, "The server behind it: host:port")
      ->type_name("ADDR");
  proxy_verb
      ->add_option("--listen", proxy.listen, "Where clients come: host:port; a free port else")
      ->type_name("ADDR");
  proxy_verb->add_option("--name", proxy.name, "What the API calls it; store where not given")
      ->type_name("NAME");
  proxy_verb
      ->add_option("--api", proxy.api,
                   "Where faults are set, as with Toxiproxy; 127.0.0.1:8474 where not given")
      ->type_name("ADDR");
  proxy_verb->add_option("--config", proxy.config, "Proxies of a file, as /populate takes them")
      ->type_name("FILE");
  proxy_verb
      ->add_option("--scenario", proxy.scenario,
                   "Do what this scenario of the drill says, from the start on: a name, or a file")
      ->type_name("NAME");
}

void CommandLine::add_journal() {
  journal_verb =
      verb(app, "journal", "Look after what metered routes served, and what it is billed");
  journal_verb
      ->add_option("ACTION", journal.action, "status, list, quarantine, verify, export or replay")
      ->required()
      ->type_name("");
  journal_verb
      ->add_option("WHERE", journal.where, "The journal's folder, or the policy that names it")
      ->required()
      ->type_name("");
  journal_verb
      ->add_option("--ledger", journal.ledger,
                   "sqlite:PATH or postgresql://…, instead of the policy's")
      ->type_name("URL");
  journal_verb
      ->add_option("--most", journal.most, "list, quarantine: so many lines; 50 where not given")
      ->type_name("N");
  journal_verb->add_flag("--quarantined", journal.quarantined, "replay: what was put aside, too");
  journal_verb->add_flag("--accept-loss", journal.accept_loss,
                         "replay: into a ledger that lost what it had of this journal");
  journal_verb->add_flag("--json", journal.json, "One JSON object a line");
}

void CommandLine::add_completion() {
  completion_verb = verb(app, "completion", "Print the completion script of a shell");
  completion_verb->add_option("SHELL", shell, "bash, zsh or fish")->required()->type_name("");
}

CommandLine::CommandLine() {
  app.set_help_flag("-h,--help", "Say how it is used");
  app.add_flag("--version", version, "Say which version this is");
  app.add_flag("--json", json, "With --version: as JSON");
  add_check();
  add_compare();
  add_explain();
  add_lint();
  add_serve();
  add_bench();
  add_drill();
  add_proxy();
  add_journal();
  add_completion();
  // An empty word is a variable of somebody's script that was not set: never "not given".
  for (CLI::App* each : app.get_subcommands({})) {
    for (CLI::Option* option : each->get_options()) {
      if (option->get_items_expected_max() > 0) option->check(not_empty());
    }
  }
  app.require_subcommand(0, 1);
  app.footer(
      "weir VERB --help says more of one verb.\n"
      "Exit status: 0 as asked, 1 answered no (limited; faults found), 2 usage, 3 could not "
      "decide.");
}

ExitCode print_completion(Environment& environment, const std::string& shell) {
  const std::string script = completion_script(shell, grammar());
  if (script.empty()) {
    return fail(environment, ExitCode::usage,
                "there is no completion for '" + shell + "'; there is for bash, zsh and fish");
  }
  environment.out << script;
  return ExitCode::as_asked;
}

ExitCode dispatch(Environment& environment, CommandLine& line) {
  if (line.version) {
    environment.out << (line.json ? "{\"version\":\"" : "weir ") << kVersion
                    << (line.json ? "\"}\n" : "\n");
    return ExitCode::as_asked;
  }
  if (*line.check_verb) return check(environment, line.check);
  if (*line.compare_verb) return compare(environment, line.compare);
  if (*line.explain_verb) return explain(environment, line.explain);
  if (*line.lint_verb) return lint(environment, line.lint);
  if (*line.serve_verb) return serve(environment, line.serve);
  if (*line.bench_verb) return bench(environment, line.bench);
  if (*line.drill_verb) return drill(environment, line.drill);
  if (*line.journal_verb) return journal(environment, line.journal);
  if (*line.proxy_verb) return proxy(environment, line.proxy);
  if (*line.completion_verb) return print_completion(environment, line.shell);
  return fail(environment, ExitCode::usage, "no verb is given; weir --help lists them");
}

// The verb that stands in the words; null: none does.
const CLI::App* verb_of(const CommandLine& line, std::span<const std::string> words) {
  for (const CLI::App* verb : line.app.get_subcommands(nullptr)) {
    if (!words.empty() && verb->get_name() == words.front()) return verb;
  }
  return nullptr;
}

// For the way out of a fault.
std::string help_of(const CommandLine& line, std::span<const std::string> words) {
  const CLI::App* const verb = verb_of(line, words);
  return "weir " + (verb == nullptr ? "" : verb->get_name() + " ") + "--help";
}

// "; did you mean '--json'?", where the first word that was not expected is near to one that is.
std::string meant_instead(const CommandLine& line, std::span<const std::string> words) {
  const std::vector<std::string> unexpected = line.app.remaining(true);
  if (unexpected.empty()) return "";
  const std::string& given = unexpected.front();
  const CLI::App* const verb = verb_of(line, words);
  std::set<std::string> known;
  if (given.starts_with("-")) {
    const CLI::App& whose = verb == nullptr ? line.app : *verb;
    for (const CLI::Option* option : whose.get_options())
      for (const std::string& name : option->get_lnames()) known.insert("--" + name);
  } else if (verb == nullptr) {
    for (const CLI::App* each : line.app.get_subcommands(nullptr)) known.insert(each->get_name());
  }
  return policy::meant(given.substr(0, given.find('=')), known);
}

ExitCode parse_and_dispatch(std::span<const std::string> words, Environment& environment) {
  CommandLine line;
  try {
    // CLI11 takes the words from the back.
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    line.app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    environment.out << line.app.help();  // of the verb, where one is given
    return ExitCode::as_asked;
  } catch (const CLI::ParseError& wrong) {
    std::string message = wrong.what();
    std::replace(message.begin(), message.end(), '\n', ' ');
    message += meant_instead(line, words);
    return fail(environment, ExitCode::usage, message + "; see " + help_of(line, words));
  }
  return dispatch(environment, line);
}

// Values that are a choice of words, which every completion offers.
struct Choice {
  std::string_view verb;
  std::string_view option;
  std::vector<std::string> words;
};

std::vector<Choice> choices() {
  std::vector<std::string> protects;
  for (const Protects each : {Protects::security, Protects::side_effects, Protects::capacity,
                              Protects::revenue, Protects::nothing}) {
    protects.emplace_back(to_string(each));
  }
  std::vector<std::string> scenarios;
  for (const drill::Scenario& each : drill::shipped_scenarios()) {
    if (!each.needs_own_server()) scenarios.push_back(each.name);  // a proxy has none
  }
  return {{"serve", "--protects", std::move(protects)},
          {"serve", "--tls", {"http", "grpc", "admin"}},
          {"bench", "--distribution", {"uniform", "zipf", "hot"}},
          {"drill", "--expect", {"open", "closed", "limits"}},
          {"proxy", "--scenario", std::move(scenarios)},
          {"bench", "", {"rls"}},
          {"journal", "", {std::begin(kJournalActions), std::end(kJournalActions)}},
          {"completion", "", {std::begin(kShells), std::end(kShells)}}};
}

void offer(const Choice& choice, Grammar& grammar) {
  for (Grammar::Verb& verb : grammar.verbs) {
    if (verb.name != choice.verb) continue;
    if (choice.option.empty()) verb.words = choice.words;
    for (Grammar::Option& option : verb.options) {
      if (option.name == choice.option) option.words = choice.words;
    }
  }
}

Grammar::Option described(const CLI::Option& option) {
  return {"--" + option.get_lnames().front(), option.get_description(),
          option.get_items_expected_max() > 0};
}

std::vector<Grammar::Option> options_of(const CLI::App& app) {
  std::vector<Grammar::Option> options;
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_lnames().empty()) options.push_back(described(*option));
  }
  return options;
}

// A password that stands in a wrong place, as in `serve redis://:PASSWORD@HOST`, is not repeated.
void mask(std::span<const std::string> words, Environment& environment) {
  for (const std::string& word : words) {
    const std::size_t equals = word.starts_with("--") ? word.find('=') : word.npos;
    const std::string text = equals == word.npos ? word : word.substr(equals + 1);
    const std::string shown = policy::redacted(text);
    if (shown != text) environment.masked.emplace_back(text, shown);
  }
}

}  // namespace

Grammar grammar() {
  const CommandLine line;
  Grammar grammar;
  grammar.options = options_of(line.app);
  for (const CLI::App* verb : line.app.get_subcommands(nullptr)) {
    grammar.verbs.push_back({verb->get_name(), verb->get_description(), options_of(*verb), {}});
  }
  for (const Choice& choice : choices()) offer(choice, grammar);
  return grammar;
}

int run(std::span<const std::string> words, Environment& environment) {
  mask(words, environment);
  ExitCode code = parse_and_dispatch(words, environment);
  environment.out.flush();
  if (!environment.out && environment.answers_on_out) {
    code = fail(environment, ExitCode::undecided,
                "the answer could not be written to standard output; is it full or closed?");
  }
  return static_cast<int>(code);
}

}  // namespace weir::cli
