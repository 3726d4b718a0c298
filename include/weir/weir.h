#pragma once

// Everything a user of the library needs. docs/coding/library.md begins with ten lines of it.

#include "weir/breaker.h"
#include "weir/breaker_call.h"
#include "weir/breaker_registry.h"
#include "weir/clock.h"
#include "weir/concurrency.h"
#include "weir/decision.h"
#include "weir/guard.h"
#include "weir/limits.h"
#include "weir/observer.h"
#include "weir/policy.h"
#include "weir/reservation.h"
#include "weir/result.h"
#include "weir/store.h"
#include "weir/version.h"
