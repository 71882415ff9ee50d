"""Authorization: which principal may do what with which resource. Brokers and controllers ask the same `Authorizer`.

    access.py               a client's access: its principal and host, and the questions that handlers and decisions ask
    standard_authorizer.py  decides by the ACLs of the metadata log
    token_secrets.py        the HMACs of delegation tokens
    decision_log.py         logs decisions, at a bounded rate
    acl_index.py            finds the few ACLs that a decision needs

The names of operations and resources are in `minikafka.protocol.acl_codes`. An ACL is an `Acl` of
`controller/metadata/acl.py`; CreateAcls and DeleteAcls are decided in `controller/decisions/acls.py`. Which operation a
request needs is checked where it is decided (`controller/decisions/access_checks.py`) or handled (`broker/apis/`).
Pure.
"""
