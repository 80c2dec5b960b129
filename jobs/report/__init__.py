"""The stage `report`: one page with what came out, beside the paper's figures."""
