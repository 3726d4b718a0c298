#pragma once

#include <string_view>

namespace weir::store::redis {

// What is wrong with a URL that names a node where it means the cluster: all other nodes' keys are
// decided without a store. A warning, where the node may have all slots; see StoreFault.
inline constexpr std::string_view kNodeOfACluster =
    "it is a node of a cluster, and asked for the slots that it has alone; name the cluster as "
    "redis+cluster://";

}  // namespace weir::store::redis
