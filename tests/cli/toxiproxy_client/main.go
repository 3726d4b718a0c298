// Toxiproxy's own client, asking a fault proxy of ours everything that it can ask.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
)

func must[T any](value T, err error) T {
	if err != nil {
		fail(err.Error())
	}
	return value
}

func check(what string, held bool) {
	if !held {
		fail(what)
	}
}

func fail(what string) {
	fmt.Println("failed:", what)
	os.Exit(1)
}

// An upstream that sends back what it is told.
func echo() string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go io.Copy(connection, connection)
		}
	}()
	return listener.Addr().String()
}

// How long a word takes there and back.
func round(address string) (time.Duration, error) {
	began := time.Now()
	connection, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	connection.SetDeadline(began.Add(5 * time.Second))
	if _, err = connection.Write([]byte("hello")); err != nil {
		return 0, err
	}
	_, err = io.ReadFull(connection, make([]byte, 5))
	return time.Since(began), err
}

func main() {
	client := toxiproxy.NewClient(os.Args[1])
	upstream := echo()
	proxy := must(client.CreateProxy("echo", "127.0.0.1:0", upstream))
	check("the client learns the port", proxy.Listen != "127.0.0.1:0" && proxy.Enabled)
	must(round(proxy.Listen))

	must(proxy.AddToxic("", "latency", "downstream", 1, toxiproxy.Attributes{"latency": 200}))
	took := must(round(proxy.Listen))
	check("latency holds", took >= 200*time.Millisecond)
	must(proxy.UpdateToxic("latency_downstream", -1, toxiproxy.Attributes{"latency": 400}))
	took = must(round(proxy.Listen))
	check("a change of it holds", took >= 400*time.Millisecond)
	toxics := must(proxy.Toxics())
	check("it is listed", len(toxics) == 1 && toxics[0].Attributes["latency"] == 400.0 &&
		toxics[0].Toxicity == 1)
	if err := proxy.RemoveToxic("latency_downstream"); err != nil {
		fail(err.Error())
	}

	must(client.AddToxic(&toxiproxy.ToxicOptions{ProxyName: "echo", ToxicName: "cut",
		ToxicType: "reset_peer", Stream: "upstream", Toxicity: 1}))
	_, err := round(proxy.Listen)
	check("reset_peer cuts", err != nil)
	if err := client.ResetState(); err != nil {
		fail(err.Error())
	}
	must(round(proxy.Listen))

	if err := proxy.Disable(); err != nil {
		fail(err.Error())
	}
	_, err = round(proxy.Listen)
	check("who is disabled does not listen", err != nil)
	if err := proxy.Enable(); err != nil {
		fail(err.Error())
	}
	must(round(proxy.Listen))

	made := must(client.Populate([]toxiproxy.Proxy{
		{Name: "echo", Listen: proxy.Listen, Upstream: upstream, Enabled: true},
		{Name: "second", Listen: "127.0.0.1:0", Upstream: upstream, Enabled: true}}))
	check("populate makes both", len(made) == 2)
	must(round(made[1].Listen))
	all := must(client.Proxies())
	check("both are there", len(all) == 2 && all["second"].Upstream == upstream)
	_, err = client.CreateProxy("echo", "127.0.0.1:0", upstream)
	check("a fault says what it is", err != nil && err.Error() == "Create: HTTP 409: proxy already exists")
	if err := all["second"].Delete(); err != nil {
		fail(err.Error())
	}
	check("one is left", len(must(client.Proxies())) == 1)
	fmt.Println("ok")
}
