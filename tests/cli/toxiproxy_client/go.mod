module weir/toxiproxy_client

go 1.22

require github.com/Shopify/toxiproxy/v2 v2.5.0
