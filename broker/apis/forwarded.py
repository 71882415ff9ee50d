"""The APIs that the active controller carries out (`FORWARDED`): forwards the request, and returns the response.

Each API has its module in `minikafka.controller.decisions`; such an API is added to this table, with the
supported versions.
"""

from typing import Any

from minikafka.broker.apis.services import ControllerService
from minikafka.broker.connections.request_context import Disconnect, RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.protocol.errors import NotControllerError
from minikafka.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from minikafka.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from minikafka.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest
from minikafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.protocol.messages.update_features import UpdateFeaturesRequest

FORWARDED: dict[type, str] = {
    CreateTopicsRequest: "2-7",
    DeleteTopicsRequest: "1-6",
    AlterConfigsRequest: "0-2",
    CreatePartitionsRequest: "0-3",
    ElectLeadersRequest: "0-2",
    IncrementalAlterConfigsRequest: "0-1",
    AlterPartitionReassignmentsRequest: "0-1",
    ListPartitionReassignmentsRequest: "0",
    DescribeClientQuotasRequest: "0-1",
    AlterClientQuotasRequest: "0-1",
    DescribeUserScramCredentialsRequest: "0",
    AlterUserScramCredentialsRequest: "0",
    UpdateFeaturesRequest: "0-2",
    UnregisterBrokerRequest: "0",
    ListConfigResourcesRequest: "0-1",
}


async def forward(request: Any, context: RequestContext[ControllerService]) -> Any:
    """Forward a request to the active controller, and return its response.

    Raises:
        KafkaError: The request is refused as a whole, for example since the controller's disk is full.
        Disconnect: The active controller is gone, and it is unknown whether it carried out the request. A client
            without a response asks again, while many clients would take NOT_CONTROLLER in each result as the outcome.
    """
    try:
        return await context.services.controller.handle(request, context.version, context.access)
    except NotControllerError as error:
        raise Disconnect(f"the outcome is unknown: {error}") from error


CHECKED_BY_BROKERS = (AlterConfigsRequest, IncrementalAlterConfigsRequest)
"""Those that a broker checks itself before: `alter_configs.py`."""
HANDLERS = [
    ApiHandler(request, versions, forward)
    for request, versions in FORWARDED.items()
    if request not in CHECKED_BY_BROKERS
]
