#pragma once

#include <cstdint>
#include <string>

#include "policy/model.h"

namespace weir::ladder {

// The sentences of `weir explain`, for readers who never saw the project.

// "minute", "30 seconds", "500ms".
std::string interval_in_words(Nanos interval);
// "12 at once, then one every 5s; 24 in the worst minute".
std::string counted_in_words(const policy::Rule& rule, Nanos clocks_apart);
// "Each of 3 workers admits its part: 34, 33, 33 of 100 per minute by user."
std::string parts_in_words(const policy::Route& route, std::uint32_t workers);
std::string overspend_in_words(const policy::Route& route);
// Where usage of metered rules is recorded, and what of it a crash can lose. Empty where none is.
std::string recorded_in_words(const policy::Model& model, const policy::Route& route);
// How a reservation ends that nobody settles. Empty where the route does not say.
std::string reservations_in_words(const policy::Route& route);
// Whether the route has limits, and all are in shadow.
bool denies_nobody(const policy::Route& route);
// "POST api.example/login"
std::string match_in_words(const policy::Match& match);
// "protects capacity", "when_store_fails"
std::string policy_reason(const policy::Route& route);

}  // namespace weir::ladder
