// Asks a rate limit service with Go's gRPC client. Arguments: HOST:PORT CALLS.
//
// Prints one line, "ok N over M errors K", where every answer could be read. Messages are put
// together by hand, so that nothing but the wire format is shared with the server.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	watch  = "/grpc.health.v1.Health/Watch"
)

// Messages are bytes already.
type plain struct{}

func (plain) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (plain) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (plain) Name() string { return "proto" }

func field(number byte, content []byte) []byte {
	return append([]byte{number<<3 | 2, byte(len(content))}, content...)
}

func request(domain, key string, value []byte) []byte {
	entry := field(1, append(field(1, []byte(key)), field(2, value)...))
	return append(field(1, []byte(domain)), field(2, entry)...)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	calls, err := strconv.Atoi(os.Args[2])
	must(err)
	conn, err := grpc.NewClient("passthrough:///"+os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(plain{})))
	must(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, watch)
	must(err)
	var empty, serving []byte
	must(stream.SendMsg(&empty))
	must(stream.CloseSend())
	must(stream.RecvMsg(&serving))
	if string(serving) != "\x08\x01" {
		must(fmt.Errorf("not serving: %q", serving))
	}

	var mutex sync.Mutex
	var ok, over, errors int
	var group sync.WaitGroup
	tickets := make(chan int)
	for range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range tickets {
				// Every other value is not UTF-8.
				value := []byte("go")
				if i%2 == 0 {
					value = []byte{0xff, 0xfe}
				}
				asked, answer := request("edge", "user", value), []byte(nil)
				err := conn.Invoke(ctx, method, &asked, &answer)
				mutex.Lock()
				switch {
				case err == nil && len(answer) > 1 && answer[0] == 8 && answer[1] == 1:
					ok++
				case err == nil && len(answer) > 1 && answer[0] == 8 && answer[1] == 2:
					over++
				default:
					errors++
					fmt.Fprintln(os.Stderr, err)
				}
				mutex.Unlock()
			}
		}()
	}
	for i := range calls {
		tickets <- i
	}
	close(tickets)
	group.Wait()
	fmt.Printf("ok %d over %d errors %d\n", ok, over, errors)
}
