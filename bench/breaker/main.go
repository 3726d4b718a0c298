// Circuit breakers for Go on the way of a call, for breaker_bench.sh: nanoseconds of processor time an
// operation, the least of some rounds.
package main

import (
	"fmt"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/sony/gobreaker/v2"
)

const operations = 1_000_000

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func measure(name string, operation func()) {
	best := 1e18
	for round := 0; round < 9; round++ {
		start := processorTime()
		for i := 0; i < operations; i++ {
			operation()
		}
		if took := float64(processorTime()-start) / operations; took < best {
			best = took
		}
	}
	fmt.Printf("%-50s %8.2f\n", name, best)
}

func main() {
	debug.SetGCPercent(-1) // what they leave behind is not counted
	two := gobreaker.NewTwoStepCircuitBreaker[bool](gobreaker.Settings{Name: "upstream"})
	measure("gobreaker v2: allow and done, failures in a row", func() {
		if done, err := two.Allow(); err == nil {
			done(nil)
		}
	})
	safe := circuitbreaker.NewBuilder[bool]().WithFailureThresholdRatio(50, 100).Build()
	measure("failsafe-go: permit and record, last 100 calls", func() {
		if safe.TryAcquirePermit() {
			safe.RecordSuccess()
		}
	})
	shut := circuitbreaker.NewBuilder[bool]().WithDelay(time.Hour).Build()
	shut.Open()
	measure("failsafe-go: open, rejected", func() {
		if shut.TryAcquirePermit() {
			panic("it is open")
		}
	})
}
